//! A message on the channel: who sent it, and its wake-ups, 1 or 17 bytes each.
//!
//! It is read by processes of other versions during a deploy: what one does not know ends the reading, and costs latency only.

use contract::RunId;
use runtime::ports::bus::Wake;

use super::outbox::Batch;

/// Tells messages of this process from those of others: it has woken its own listeners already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin([u8; Origin::BYTES]);

const CLAIMABLE: u8 = b'c';
const APPENDED: u8 = b'a';
const INBOX: u8 = b'i';
const EVERYTHING: u8 = b'*';
/// Bytes of a run's id.
const RUN: usize = 16;

impl Origin {
    const BYTES: usize = 8;

    #[expect(clippy::disallowed_methods, reason = "tells processes apart and decides nothing")]
    pub(super) fn new() -> Self {
        let mut bytes = [0; Self::BYTES];
        // Without randomness all are the same, and nobody hears another: then everyone polls, as without Redis.
        if let Err(error) = getrandom::fill(&mut bytes) {
            tracing::error!(%error, "there is no randomness: wake-ups come by polling");
        }
        Self(bytes)
    }
}

pub(super) fn write(origin: Origin, batch: &Batch) -> Vec<u8> {
    let mut letter = origin.0.to_vec();
    match batch {
        Batch::Everything => letter.push(EVERYTHING),
        Batch::Some(wakes) => {
            letter.reserve(wakes.len() * (1 + RUN));
            for wake in wakes {
                let (tag, run) = match wake {
                    Wake::Claimable => (CLAIMABLE, None),
                    Wake::Appended(run) => (APPENDED, Some(run)),
                    Wake::Inbox(run) => (INBOX, Some(run)),
                };
                letter.push(tag);
                letter.extend(run.map(|run| run.bits().to_be_bytes()).iter().flatten());
            }
        }
    }
    letter
}

/// What a message of another process asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Wake(Wake),
    Everything,
}

/// What a message says; nothing if it is this process' own.
pub(super) fn read(own: Origin, letter: &[u8]) -> impl Iterator<Item = Heard> {
    let body = letter.split_first_chunk().filter(|(origin, _)| **origin != own.0).map(|(_, body)| body);
    let mut rest = body.unwrap_or_default();
    std::iter::from_fn(move || {
        let (tag, mut after) = rest.split_first()?;
        let mut run = || {
            let (bits, behind) = after.split_first_chunk::<RUN>()?;
            after = behind;
            Some(RunId::from_bits(u128::from_be_bytes(*bits)))
        };
        let heard = match *tag {
            CLAIMABLE => Heard::Wake(Wake::Claimable),
            APPENDED => Heard::Wake(Wake::Appended(run()?)),
            INBOX => Heard::Wake(Wake::Inbox(run()?)),
            EVERYTHING => Heard::Everything,
            _ => return None,
        };
        rest = after;
        Some(heard)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wake() -> impl Strategy<Value = Wake> {
        prop_oneof![
            Just(Wake::Claimable),
            any::<u128>().prop_map(|bits| Wake::Appended(RunId::from_bits(bits))),
            any::<u128>().prop_map(|bits| Wake::Inbox(RunId::from_bits(bits))),
        ]
    }

    proptest! {
        #[test]
        fn others_hear_what_was_written_and_its_writer_does_not(wakes in proptest::collection::vec(wake(), 0..40)) {
            let (own, other) = (Origin([1; 8]), Origin([2; 8]));
            let letter = write(own, &Batch::Some(wakes.iter().copied().collect()));
            let heard: Vec<_> = read(other, &letter).collect();
            prop_assert!(wakes.iter().all(|wake| heard.contains(&Heard::Wake(*wake))));
            prop_assert!(heard.iter().all(|heard| matches!(heard, Heard::Wake(wake) if wakes.contains(wake))));
            prop_assert_eq!(read(own, &letter).count(), 0);
            prop_assert_eq!(read(other, &write(own, &Batch::Everything)).collect::<Vec<_>>(), [Heard::Everything]);
        }

        #[test]
        fn whatever_somebody_sends_is_read_to_an_end(letter in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(Origin([1; 8]), &letter).count() <= letter.len());
        }
    }
}
