//! Completion in real shells, as the Tab key triggers it.

use std::path::Path;
use std::process::Command;

use super::{Sandbox, nra, outcome};

/// Completes a line in a shell and returns the candidates, one per line. Returns `None` if the shell is not installed.
fn offered(shell: &str, line: &str, sandbox: &Sandbox) -> Option<String> {
    let script = sandbox.out(&["completions", shell]);
    let words: Vec<&str> = line.split(' ').collect();
    let program = Path::new(env!("CARGO_BIN_EXE_nra"));
    let run = match shell {
        // Additional actions of readline are shown in brackets.
        "bash" => format!(
            "compopt() {{ [[ $2 == default || $2 == dirnames ]] && echo \"[$2]\"; true; }}\n{script}\n\
             COMP_WORDS=(nra); COMP_LINE=$1; COMP_POINT=${{#1}}; _nra; ((${{#COMPREPLY[@]}})) && printf '%s\\n' \"${{COMPREPLY[@]}}\""
        ),
        "zsh" => format!(
            "compdef() {{ }}; compset() {{ PREFIX=${{PREFIX#*=}} }}; _files() {{ print \"[${{1:-files}}]\" }}\n\
             compadd() {{ print -rl -- ${{(P)@[-1]}} }}\n{script}\n\
             words=(nra {}); CURRENT={}; PREFIX={}; _nra",
            words[1..words.len() - 1].iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len(),
            words[words.len() - 1],
        ),
        _ => format!("{script}\ncomplete -C \"$argv[1]\""),
    };
    let mut command = Command::new(shell);
    match shell {
        "bash" => command.args(["--norc", "-c", &run, "bash", line]),
        "zsh" => command.args(["-f", "-c", &run]),
        _ => command.args(["-N", "-c", &run, line]),
    };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&paths));
    command.env("PATH", std::env::join_paths(paths).unwrap()).current_dir(sandbox.directory.path());
    let outcome = outcome(command.output().ok()?);
    assert_eq!(outcome.err, "", "{shell}: {line}");
    Some(outcome.out)
}

#[allow(clippy::print_stderr, reason = "a skipped test prints a note")]
#[test]
fn complete_lists_commands_values_files_and_archive_paths() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.directory.path().join("folder")).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        for (line, expected) in [
            ("nra ver", &["verify", "version"][..]),
            ("nra comp", &["compact", "completions"]),
            ("nra list rich.nra --dig", &["--digest"]),
            ("nra list rich.nra --sort s", &["size"]),
            ("nra -q cat rich.nra docs/a", &["docs/a b.txt"]),
            ("nra rm rich.nra do", &["docs/"]),
            ("nra extract rich.nra own", &["owned"]),
            ("nra key ch", &["change"]),
            ("nra grep rich.nra x docs/su", &["docs/sub/"]),
        ] {
            let Some(out) = offered(shell, line, &sandbox) else {
                eprintln!("not tested: {shell} is not installed");
                break;
            };
            // A description follows the word.
            let words: Vec<&str> = out.lines().filter_map(|line| line.split(['\t']).next()).collect();
            assert_eq!(words, expected, "{shell}: {line}");
        }
        for (line, bash, zsh, fish) in [
            ("nra extract ", "[default]", "[files]", "rich.nra"),
            ("nra list r", "[default]", "[files]", "rich.nra"),
            ("nra extract rich.nra -C f", "[dirnames]", "[-/]", "folder/"),
            ("nra pack --output=r", "[default]", "[files]", "--output=rich.nra"),
        ] {
            let Some(out) = offered(shell, line, &sandbox) else { break };
            let expected = if shell == "bash" {
                bash
            } else if shell == "zsh" {
                zsh
            } else {
                fish
            };
            assert!(out.lines().any(|line| line.split('\t').next() == Some(expected)), "{shell}: {line}: {out}");
        }
    }
}

#[test]
fn static_completion_scripts_contain_visible_commands() {
    let sandbox = Sandbox::new();
    for shell in ["elvish", "powershell"] {
        let script = sandbox.out(&["completions", shell]);
        assert!(script.contains("verify") && !script.contains("nra;complete"), "{shell}");
        assert!(script.contains("completions"), "{shell}");
    }
}

#[test]
fn complete_uses_password_from_command_line() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.directory.path().join("secret word"), "x").unwrap();
    let packed = sandbox.run(&["pack", "secret word", "-o", "locked.nra", "--password", "p", "-q"]);
    assert_eq!(packed.code, Some(0), "{}", packed.err);
    let ask = |words: &[&str]| {
        let command = ["complete", "fish", "--"].iter().chain(words);
        let run = nra().args(command).current_dir(sandbox.directory.path()).output().unwrap();
        outcome(run).out
    };
    assert_eq!(ask(&["cat", "--password", "p", "locked.nra", "se"]), "paths\nsecret word\n");
    assert_eq!(ask(&["cat", "locked.nra", "se"]), "paths\n");
    assert_eq!(ask(&["cat", "gone.nra", "se"]), "paths\n");
}
