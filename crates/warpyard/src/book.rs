//! The book cannot say what is not so: its chapters are all listed, its links lead somewhere, its commands are ones this
//! program takes and its documents ones it reads.

use crate::cli::Cli;
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};
use warpyard_api::job::{Format, ReadOptions, read};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The chapters, and what else is written for users.
fn pages() -> Vec<(PathBuf, String)> {
    let chapters = fs::read_dir(Path::new(ROOT).join("book/src")).expect("a book");
    let paths = chapters.map(|entry| entry.expect("a chapter").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let paths = paths.chain([Path::new(ROOT).join("README.md")]);
    paths.map(|path| (path.clone(), fs::read_to_string(path).expect("text"))).collect()
}

/// The contents of code blocks of a language.
fn blocks<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let fence = format!("```{kind}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// A line's words as a shell takes them apart, up to a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            ('#', None) if word.is_none() => break,
            (' ', None) => words.extend(word.take()),
            ('"' | '\'', None) => (quote, word) = (Some(c), Some(word.unwrap_or_default())),
            (c, Some(q)) if c == q => quote = None,
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_chapter_is_listed_and_every_link_leads_somewhere() {
    let summary = fs::read_to_string(Path::new(ROOT).join("book/src/SUMMARY.md")).expect("a summary");
    for (path, text) in pages() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let listed = ["README.md", "SUMMARY.md"].contains(&name) || summary.contains(&format!("({name})"));
        assert!(listed, "{name} is not in the summary");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            assert!(path.parent().expect("a directory").join(link).exists(), "{}: {link}", path.display());
        }
    }
}

#[test]
fn every_command_shown_is_one() {
    let mut shown = 0;
    for (path, text) in pages() {
        for line in blocks(&text, "console").into_iter().flat_map(str::lines) {
            let Some(command) = line.strip_prefix("$ ").or(line.strip_prefix("# ")) else { continue };
            if !command.starts_with("warpyard ") {
                continue;
            }
            let read = Cli::try_parse_from(words(command));
            assert!(read.is_ok(), "{}: {line}: {}", path.display(), read.unwrap_err());
            shown += 1;
        }
    }
    assert!(shown > 40, "only {shown} were found");
}

#[test]
fn every_document_shown_can_be_read() {
    let mut shown = 0;
    for (path, text) in pages() {
        for document in blocks(&text, "toml") {
            let is_config = document.starts_with("[estimate]");
            let wrong = if document.contains("command =") && !is_config {
                read(document, Format::Toml, ReadOptions::default()).err().map(|e| format!("{e:?}"))
            } else if document.contains("[[server]]") {
                crate::simulation::cluster_in(document).err()
            } else {
                toml::from_str::<warpyard_server::config::Config>(document).err().map(|e| e.to_string())
            };
            assert_eq!(wrong, None, "{}: {document}", path.display());
            shown += 1;
        }
    }
    assert!(shown >= 3, "only {shown} were found");
}
