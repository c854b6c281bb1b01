//! Manual pages and completions, both made from the command line's own definition.

use crate::cli::Cli;
use clap::CommandFactory;
use clap_complete::env::Shells;

/// Shells, and where each looks for completions: for everyone, and in a home.
pub(super) const COMPLETIONS: [(&str, &str, &str); 3] = [
    (
        "bash",
        "usr/local/share/bash-completion/completions/warpyard",
        ".local/share/bash-completion/completions/warpyard",
    ),
    ("zsh", "usr/local/share/zsh/site-functions/_warpyard", ".local/share/zsh/site-functions/_warpyard"),
    (
        "fish",
        "usr/local/share/fish/vendor_completions.d/warpyard.fish",
        ".local/share/fish/vendor_completions.d/warpyard.fish",
    ),
];

/// The script by which a shell asks this program for completions, job ids among them.
pub(crate) fn completions(shell: &str) -> Vec<u8> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(shell).expect("the shells listed are known");
    let written = completer.write_registration(VARIABLE, "warpyard", "warpyard", "warpyard", &mut script);
    written.expect("a list of bytes takes all");
    script
}

/// The variable by which a shell asks us for completions.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// Every page: the program's and one for each command.
pub(super) fn manual() -> Vec<(String, Vec<u8>)> {
    let mut pages = Vec::new();
    let program = Cli::command().disable_help_subcommand(true);
    for command in program.get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = format!("warpyard-{}", command.get_name());
        // A page's name is that of the command with its dashes, as in git-log(1).
        let command = command.clone().display_name(name.clone()).bin_name(name.replacen('-', " ", 1));
        pages.push((format!("{name}.1"), page(command)));
    }
    pages.push(("warpyard.1".to_owned(), page(program)));
    pages
}

fn page(command: clap::Command) -> Vec<u8> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text).expect("a list of bytes takes all");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_says_what_it_does() {
        let pages = manual();
        let page = |name: &str| {
            let found = pages.iter().find(|(page, _)| page == name);
            String::from_utf8(found.unwrap_or_else(|| panic!("no page {name}")).1.clone()).expect("text")
        };
        assert!(page("warpyard.1").contains("warpyard\\-claim(1)"));
        assert!(page("warpyard-claim.1").contains("run a command here"));
        assert!(page("warpyard-why.1").contains(".SH"));
    }

    #[test]
    fn shells_ask_us_back() {
        for (shell, ..) in COMPLETIONS {
            let script = String::from_utf8(completions(shell)).expect("text");
            assert!(script.contains("warpyard") && script.contains(VARIABLE), "{script}");
        }
    }
}
