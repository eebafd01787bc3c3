//! `docs/tui.md` has the table of keys: with `NRA_BLESS=1` this test writes it, otherwise it
//! compares.

use std::fmt::Write as _;
use std::path::Path;

use crate::keymap::{COMMANDS, Group, Place};

const BEGIN: &str = "<!-- keys -->\n";
const END: &str = "<!-- end of keys -->\n";

fn table() -> String {
    let mut table = String::new();
    for group in Group::ALL {
        let _ = write!(table, "\n### {}\n\n| keys | where | what | name |\n| --- | --- | --- | --- |\n", group.title());
        for command in COMMANDS.iter().filter(|command| command.group == group) {
            let keys: Vec<String> = command.keys.iter().map(|key| format!("`{}`", key.replace('|', "\\|"))).collect();
            let places: Vec<&str> = Place::ALL.into_iter().filter(|place| command.works_in(*place)).map(Place::title).collect();
            let places = if places.len() == Place::ALL.len() { "everywhere".to_owned() } else { places.join(", ") };
            let _ = writeln!(table, "| {} | {places} | {} | `{}` |", keys.join(" "), command.help, command.name);
        }
    }
    table.push('\n');
    table
}

#[test]
fn page_has_key_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tui.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (front, rest) = page.split_once(BEGIN).unwrap();
    let (_, back) = rest.split_once(END).unwrap();
    let made = format!("{front}{BEGIN}{}{END}{back}", table());
    if std::env::var_os("NRA_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(
        page == made || std::env::var_os("NRA_BLESS").is_some(),
        "docs/tui.md is stale: NRA_BLESS=1 cargo test -p nra-tui --lib tests::docs"
    );
}
