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

/// Writes rows under headings, each column as wide as its widest cell.
///
/// # Errors
/// Such as a closed pipe.
pub fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
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
