//! From a position of a transformed module back to its source, made when somebody asks: exceptions are rare, and maps are not small.

use super::{Dialect, transform, with_room};

/// Which byte of the text a position of its code comes from. Line and column count from 1, as browsers report them.
pub(crate) fn origin(text: &str, dialect: Dialect, verbatim: bool, line: u32, column: u32) -> Option<u32> {
    let position = (line.checked_sub(1)?, column.saturating_sub(1));
    with_room(text, || transform::transform(text, dialect, verbatim, Some(position)).1).ok()?
}

/// The line and the column of a byte, from 0, as maps count: columns in units of UTF-16.
pub(super) fn position(text: &str, at: u32) -> (u32, u32) {
    let end = text.floor_char_boundary(usize::try_from(at).unwrap_or(usize::MAX));
    let before = text.get(..end).unwrap_or_default();
    let line = memchr::memchr_iter(b'\n', before.as_bytes()).count();
    let column = before.rsplit('\n').next().unwrap_or_default().encode_utf16().count();
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// The byte at a line and a column, both from 0 and the column in units of UTF-16; the end of a line that is not as long.
pub(super) fn byte(text: &str, line: u32, column: u32) -> u32 {
    let lines = usize::try_from(line).unwrap_or(usize::MAX);
    let start: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    let mut left = usize::try_from(column).unwrap_or(usize::MAX);
    let mut at = start;
    for c in text.get(start..).unwrap_or_default().chars() {
        if c == '\n' || left < c.len_utf16() {
            break;
        }
        left -= c.len_utf16();
        at += c.len_utf8();
    }
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_bytes_are_two_names_of_one_place() {
        let text = "a\n\u{1F600}é b\r\n\nc";
        for (at, _) in text.char_indices() {
            let at = u32::try_from(at).unwrap();
            let (line, column) = position(text, at);
            assert_eq!(byte(text, line, column), at, "{line}:{column}");
        }
        assert_eq!((byte(text, 0, 99), byte(text, 99, 0), position(text, 999)), (1, 14, (3, 1)));
    }
}
