//! Standard output and standard error. A closed pipe is an error that ends the program quietly, never a panic.
//!
//! Every command writes through these functions; results go to standard output, remarks to standard error.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

/// Writes a line to standard output.
///
/// # Errors
/// Such as a closed pipe; see [`crate::exit::finish`].
pub fn line(text: &str) -> io::Result<()> {
    // In one piece, and buffered by lines: whoever reads it gets all of it now.
    io::stdout().lock().write_all(format!("{text}\n").as_bytes())
}

/// Writes a value as one line of JSON to standard output.
///
/// # Errors
/// Such as a closed pipe.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// Writes a remark to standard error. Nobody may be reading it, and that stops nothing.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether a person looks at standard output and standard error, so that a live display makes sense.
pub fn is_live() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Text of a model, a tool, a person or a file name, without anything that a terminal would obey.
pub fn visible(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // A control sequence (ECMA-48) ends at its first letter; what is no sequence loses one character.
            if rest.next() == Some('[') {
                let _ = rest.by_ref().find(|c| ('@'..='~').contains(c));
            }
        } else {
            // Marks of direction and what has no width would make a line look otherwise than it is.
            let hidden =
                matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
            seen.push(if c.is_control() || hidden { ' ' } else { c });
        }
    }
    seen.trim().to_owned()
}

/// Writes rows under headings, each column as wide as its widest cell. Nothing in a cell reaches the terminal as a command.
///
/// # Errors
/// Such as a closed pipe.
pub fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let rows: Vec<[String; N]> = rows.iter().map(|row| std::array::from_fn(|n| visible(&row[n]))).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let write = |cells: [&str; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        line(padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    write(headings)?;
    rows.iter().try_for_each(|row| write(std::array::from_fn(|column| row[column].as_str())))
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        let cases = [
            ("a \u{1b}[31mred\u{1b}[0m line", "a red line"),
            ("\u{1b}]0;title\u{7} x", "0;title  x"),
            ("c1 \u{9b}2J", "c1  2J"),
            ("abc\u{202e}fed", "abc fed"),
            ("tab\tand\nline", "tab and line"),
            ("漢字 🎉 é", "漢字 🎉 é"),
        ];
        for (text, want) in cases {
            assert_eq!(visible(text), want, "{text:?}");
        }
    }
}
