//! The rules of CONTRIBUTING.md's "Language" section that a program can check: words that name no subject, doc comments
//! that begin with a question word, and function names that do not say the effect.
//!
//! Rust and Markdown files are checked, identifiers included. A line that must contain such a word, because upstream
//! defines it or because it is the name of a user, is in `ALLOWED`; an entry that is no longer needed fails the check.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::text::{FOLDERS, files};
use crate::process::repository;

/// Words for which the text should name the subject.
const WORDS: [&str; 7] = ["somebody", "nobody", "whoever", "anybody", "everybody", "anyone", "someone"];

/// Words that no doc comment begins with.
const QUESTIONS: [&str; 4] = ["What", "How", "Whether", "Who"];

/// Function names that do not say the effect.
const RIDDLES: [&str; 4] = ["told", "tell", "look", "let_off"];

/// Files, and a part of the lines in them that may contain one of the words.
const ALLOWED: [(&str, &str); 0] = [];

/// Files that state the rules.
const RULES: [&str; 2] = ["CONTRIBUTING.md", "xtask/src/check/language.rs"];

pub(crate) fn check() -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    let mut used = [false; ALLOWED.len()];
    for file in checked_files()? {
        let name = file.strip_prefix(repository()).unwrap_or(&file).display().to_string();
        if RULES.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("reading {name}"))?;
        for (line, word) in
            violations(&text, name.ends_with(".rs"), |line| is_allowed(&name, line, &mut used))
        {
            complaints.push(format!("  {name}:{line}: {word}"));
        }
    }
    let unused = ALLOWED.iter().zip(used).filter(|(_, used)| !used);
    complaints
        .extend(unused.map(|((name, part), _)| format!("  {name}: `{part}` need not be allowed any more")));
    ensure!(complaints.is_empty(), "CONTRIBUTING.md's rules for language:\n{}", complaints.join("\n"));
    Ok(())
}

/// Rust files below the folders of the repository, and Markdown files there and in the root.
fn checked_files() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in FOLDERS.iter().chain(&["docs", "benches"]) {
        found.extend(files(&repository().join(folder), &[".rs", ".md"])?);
    }
    for entry in fs::read_dir(repository()).context("listing the repository")? {
        let path = entry.context("listing the repository")?.path();
        if path.extension() == Some(Path::new("md").as_os_str()) {
            found.push(path);
        }
    }
    Ok(found)
}

/// True if an entry of `ALLOWED` covers the line; the entry then counts as used.
fn is_allowed(name: &str, line: &str, used: &mut [bool]) -> bool {
    let found = ALLOWED.iter().position(|(file, part)| *file == name && line.contains(part));
    found.is_some_and(|index| {
        used[index] = true;
        true
    })
}

/// Words, by line, that break a rule.
fn violations(text: &str, is_rust: bool, mut is_allowed: impl FnMut(&str) -> bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(word) = banned_word(line)
            && !is_allowed(line)
        {
            found.push((index + 1, word));
        }
        let riddle = function_name(line).filter(|name| is_rust && RIDDLES.contains(name));
        found.extend(riddle.map(|name| (index + 1, format!("a function is called {name}"))));
        let doc = doc_comment(line).filter(|_| is_rust);
        let question = doc.filter(|_| !continues).and_then(question_word);
        found.extend(question.map(|word| (index + 1, format!("a doc comment begins with {word}"))));
        continues = doc.is_some();
    }
    found
}

/// The first banned word of a line, also as a part of an identifier.
fn banned_word(line: &str) -> Option<String> {
    let mut words = line.split(|c: char| !c.is_alphanumeric());
    words.find(|word| WORDS.iter().any(|banned| banned.eq_ignore_ascii_case(word))).map(str::to_owned)
}

/// The name of the function that a line declares.
fn function_name(line: &str) -> Option<&str> {
    let code = line.split("//").next().unwrap_or_default();
    let (before, after) = code.split_once("fn ")?;
    let is_word = before.chars().next_back().is_none_or(char::is_whitespace);
    after.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|_| is_word)
}

/// The text of a line of a doc comment.
fn doc_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

fn question_word(comment: &str) -> Option<&'static str> {
    let first = comment.split(|c: char| !c.is_alphanumeric()).next()?;
    QUESTIONS.into_iter().find(|question| *question == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let found = violations(text, true, |line| line.contains("user:"));
        let found: Vec<(usize, &str)> = found.iter().map(|(line, word)| (*line, word.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn words_without_a_subject_are_found() {
        check(
            "// Nobody reads it.\nfn anyone_may() {}\nlet user: &str = \"nobody\";\n",
            &[(1, "Nobody"), (2, "anyone")],
        );
        check("// The client's bodysomeone, nobodys.\n", &[]);
    }

    #[test]
    fn functions_say_their_effect() {
        check("    pub(crate) async fn told(a: u8) {}\n", &[(1, "a function is called told")]);
        check("fn look<T>() {}\n", &[(1, "a function is called look")]);
        check("fn lookup() {} // fn look()\nlet told = 1;\n", &[]);
    }

    #[test]
    fn doc_comments_do_not_begin_with_a_question() {
        let begins = "a doc comment begins with";
        check("/// What it is.\n", &[(1, &format!("{begins} What"))]);
        check("    /// Whether it is.\n", &[(1, &format!("{begins} Whether"))]);
        check("//! How it is.\n", &[(1, &format!("{begins} How"))]);
        check("/// Returns it.\n/// What it is not.\n", &[]);
        check("/// However it is.\n// What it is.\n", &[]);
    }
}
