//! What must hold for any response, as one function: the tests run it over a corpus with mutations, and the fuzz target over anything.
//!
//! 1. Chunking decides nothing: any chunking gives the same frames after adjacent content is merged.
//! 2. Frames are balanced: what starts ends, content comes only where it belongs, and nothing is empty.
//! 3. What is held back is bounded at every moment, and nothing is held after the end.

use super::{Dialect, Frame, MAX_HELD_BYTES, Parser};

/// Chunk sizes that are tried beside the whole: one byte, sizes that fall out of step with everything, and those of the benchmark.
const CHUNKS: [usize; 5] = [1, 3, 7, 16, 61];

/// Parses a whole response in chunks of `chunk` bytes (0: all at once) and merges adjacent content.
pub fn read(dialect: Dialect, bytes: &[u8], chunk: usize) -> Vec<Frame<'static>> {
    let chunk = if chunk == 0 { bytes.len().max(1) } else { chunk };
    read_chunks(dialect, bytes.chunks(chunk))
}

/// Parses a response that comes in these chunks and merges adjacent content.
///
/// # Panics
/// If the parser holds back more than it may.
pub fn read_chunks<'c>(dialect: Dialect, chunks: impl IntoIterator<Item = &'c [u8]>) -> Vec<Frame<'static>> {
    let mut parser = Parser::new(dialect);
    let mut frames = Vec::new();
    for chunk in chunks {
        parser.push(chunk, &mut |frame| keep(&mut frames, frame));
        assert!(parser.held_back() <= MAX_HELD_BYTES, "{} bytes are held back", parser.held_back());
    }
    parser.finish(&mut |frame| keep(&mut frames, frame));
    assert_eq!(parser.held_back(), 0, "bytes are held back after the end");
    frames
}

fn keep(frames: &mut Vec<Frame<'static>>, frame: Frame<'_>) {
    let frame = match frames.last_mut() {
        Some(last) => last.merge(frame),
        None => Some(frame),
    };
    frames.extend(frame.map(Frame::into_owned));
}

/// Checks everything that must hold for this response, in both dialects.
///
/// # Panics
/// If something does not hold; the message says what.
pub fn check(bytes: &[u8]) {
    for dialect in [Dialect::Tags, Dialect::Fenced] {
        let whole = read(dialect, bytes, 0);
        balanced(&whole);
        for chunk in CHUNKS {
            same(&whole, &read(dialect, bytes, chunk), format_args!("{dialect}, chunks of {chunk}"));
        }
        same(&whole, &read_chunks(dialect, ragged(bytes)), format_args!("{dialect}, ragged chunks"));
    }
}

fn same(whole: &[Frame<'_>], chunked: &[Frame<'_>], how: std::fmt::Arguments<'_>) {
    let first = whole.iter().zip(chunked).position(|(a, b)| a != b).unwrap_or(whole.len().min(chunked.len()));
    assert!(
        whole == chunked,
        "{how}: frame {first} differs: whole {:?}, chunked {:?}",
        whole.get(first),
        chunked.get(first)
    );
}

/// Chunks of 1 to 40 bytes, whose lengths follow from the bytes themselves.
fn ragged(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut state = rest.len() as u64;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1 + u64::from(*rest.first()?));
        let (chunk, after) = rest.split_at(rest.len().min(1 + (state >> 33) as usize % 40));
        rest = after;
        Some(chunk)
    })
}

fn balanced(frames: &[Frame<'_>]) {
    let (mut thinking, mut file, mut sandbox) = (false, false, false);
    for (i, frame) in frames.iter().enumerate() {
        let (inside, ok) = match frame {
            Frame::Text { content } => (thinking || file, !content.is_empty()),
            Frame::ThinkingStart => (std::mem::replace(&mut thinking, true) || file, true),
            Frame::ThinkingContent { content } => (file, thinking && !content.is_empty()),
            Frame::ThinkingEnd => (file, std::mem::replace(&mut thinking, false)),
            Frame::SandboxStart { .. } => (thinking || file, !std::mem::replace(&mut sandbox, true)),
            Frame::SandboxEnd => (thinking || file, std::mem::replace(&mut sandbox, false)),
            Frame::FileStart { .. } => (thinking || std::mem::replace(&mut file, true), true),
            Frame::FileContent { content } => (thinking, file && !content.is_empty()),
            Frame::FileEnd { .. } => (thinking, std::mem::replace(&mut file, false)),
            Frame::Edit { blocks, .. } => (thinking || file, !blocks.is_empty()),
            Frame::Done => (thinking || file || sandbox, true),
            Frame::Delete { .. }
            | Frame::Rename { .. }
            | Frame::Install { .. }
            | Frame::Command { .. }
            | Frame::WebSearch { .. }
            | Frame::UrlScrape { .. }
            | Frame::Skill { .. }
            | Frame::Error(_) => (thinking || file, true),
        };
        assert!(ok && !inside, "frame {i} is out of place: {frame:?}");
    }
    assert!(!thinking && !file && !sandbox, "something is still open at the end");
}
