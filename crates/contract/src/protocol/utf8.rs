//! Bytes to text, whatever the chunking: a character that is not whole yet is left for later, a broken one becomes U+FFFD.

use std::borrow::Cow;

/// Emits `bytes` as text and returns how many were used. With `whole` all are: nothing that follows can complete the last character.
/// Without, the beginning of a character at the end is left.
pub(super) fn decode<'a>(bytes: &'a [u8], whole: bool, mut emit: impl FnMut(&'a str)) -> usize {
    let used = if whole { bytes.len() } else { bytes.len() - unfinished(bytes) };
    let bytes = &bytes[..used];
    if bytes.is_empty() {
        return 0;
    }
    match str::from_utf8(bytes) {
        Ok(text) => emit(text),
        Err(_) => {
            for chunk in bytes.utf8_chunks() {
                if !chunk.valid().is_empty() {
                    emit(chunk.valid());
                }
                if !chunk.invalid().is_empty() {
                    emit("\u{FFFD}");
                }
            }
        }
    }
    used
}

/// Bytes that are whole as text.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Checks eight bytes at a time where the lossy conversion goes byte by byte.
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// How many bytes at the end may be the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.last().is_none_or(u8::is_ascii) {
        return 0;
    }
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    // A lead byte cannot belong to what precedes it, so this does not depend on the bytes before.
    let Some(lead) = tail.iter().rposition(|b| *b >= 0xC0) else { return 0 };
    match str::from_utf8(&tail[lead..]) {
        Err(error) if error.error_len().is_none() => tail.len() - lead,
        _ => 0,
    }
}
