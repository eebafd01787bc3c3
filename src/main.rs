//! The nra program.

use std::process::ExitCode;

fn main() -> ExitCode {
    nra::cli::main()
}
