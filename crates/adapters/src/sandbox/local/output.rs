//! A command's output: read to its end always, passed on in part. The head goes on as it comes; of the rest the tail is kept and goes on
//! at the end.
//!
//! Reading must never stop before the end: a command would wait for ever on a full pipe (64 KiB).

use bytes::Bytes;
use contract::event::OutputStream;
use runtime::ports::sandbox::{OutputChunk, OutputLimits};
use std::collections::VecDeque;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Bytes that are read at once, and the largest piece that is passed on.
const PIECE_BYTES: usize = 32 * 1024;

/// Passes one stream on until its end and tells whether something was left out. After `hurry` the receiver is not waited for.
pub(super) async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    stream: OutputStream,
    limits: OutputLimits,
    to: &mpsc::Sender<OutputChunk>,
    hurry: &CancellationToken,
) -> bool {
    let mut piece = vec![0; PIECE_BYTES];
    let mut head_left = limits.head_bytes;
    let mut tail = Tail::new(limits.tail_bytes);
    let mut all_sent = true;
    // An error on a pipe is its end.
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let head = length.min(head_left);
        head_left -= head;
        if head > 0 {
            let chunk = OutputChunk { stream, skipped: 0, bytes: Bytes::copy_from_slice(&piece[..head]) };
            all_sent &= send(chunk, to, hurry).await;
        }
        tail.push(&piece[head..length]);
    }
    let Tail { bytes, mut skipped, .. } = tail;
    let capped = skipped > 0;
    let rest = Bytes::from(Vec::from(bytes));
    for start in (0..rest.len()).step_by(PIECE_BYTES) {
        let bytes = rest.slice(start..rest.len().min(start + PIECE_BYTES));
        all_sent &= send(OutputChunk { stream, skipped: std::mem::take(&mut skipped), bytes }, to, hurry).await;
    }
    capped || !all_sent
}

/// Sends a piece, and tells whether it was taken. A receiver that does not want more is no reason to stop reading.
async fn send(chunk: OutputChunk, to: &mpsc::Sender<OutputChunk>, hurry: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        sent = to.send(chunk) => sent.is_ok(),
        () = hurry.cancelled() => false,
    }
}

/// The last bytes of a stream.
struct Tail {
    bytes: VecDeque<u8>,
    most: usize,
    skipped: u64,
}

impl Tail {
    fn new(most: usize) -> Self {
        Self { bytes: VecDeque::new(), most, skipped: 0 }
    }

    fn push(&mut self, more: &[u8]) {
        self.bytes.extend(more);
        let over = self.bytes.len().saturating_sub(self.most);
        self.bytes.drain(..over);
        self.skipped += over as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes in, in one piece.
    async fn passed(input: &[u8], head: usize, tail: usize) -> (Vec<OutputChunk>, bool) {
        let (to, mut from) = mpsc::channel(1_000);
        let limits = OutputLimits { head_bytes: head, tail_bytes: tail };
        let capped = pass_on(input, OutputStream::Stdout, limits, &to, &CancellationToken::new()).await;
        drop(to);
        let mut chunks = Vec::new();
        while let Some(chunk) = from.recv().await {
            chunks.push(chunk);
        }
        (chunks, capped)
    }

    #[tokio::test]
    async fn head_gap_and_tail_make_up_the_whole() {
        let input: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        for (head, tail) in [(0, 0), (10, 0), (0, 10), (10, 10), (100_000, 50_000), (100_000, 100_000), (300_000, 0)] {
            let (chunks, capped) = passed(&input, head, tail).await;
            let mut at = 0;
            for chunk in &chunks {
                at += chunk.skipped as usize;
                assert_eq!(chunk.bytes, input[at..at + chunk.bytes.len()], "head {head} tail {tail} at {at}");
                at += chunk.bytes.len();
            }
            let kept: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
            assert_eq!(kept, input.len().min(head + tail));
            assert_eq!(capped, kept < input.len());
            assert!(at == input.len() || tail == 0);
        }
    }

    #[tokio::test]
    async fn a_receiver_that_takes_nothing_does_not_hold_up_a_command_in_a_hurry() {
        let (to, _from) = mpsc::channel(1);
        let hurry = CancellationToken::new();
        hurry.cancel();
        let limits = OutputLimits { head_bytes: 1_000_000, tail_bytes: 0 };
        assert!(pass_on(&[0u8; 500_000][..], OutputStream::Stderr, limits, &to, &hurry).await);
    }
}
