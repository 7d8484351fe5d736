//! Pages of the store as frames with fewer events: adjacent deltas of one stream become one, from `from_seq` to `seq` (E21).
//!
//! For readers that catch up: a browser that comes back does not need a model's words one by one. What may be joined is the
//! contract's to say (`Event::merge`); nothing is joined across anything else, and no event is left out.

use std::collections::VecDeque;

use contract::Event;

use crate::live::Frame;
use crate::ports::store::StoredEvent;

/// Types of which two can become one. Others need not be decoded to be passed on.
const DELTAS: [&str; 4] = ["text_delta", "thinking_delta", "file_delta", "tool_output"];

/// The frames of a page, with deltas joined up to `most` bytes of text.
pub(crate) fn frames(page: &[StoredEvent], most: usize) -> VecDeque<Frame> {
    let mut frames = VecDeque::new();
    let mut rest = page;
    while let Some(first) = rest.first() {
        let (count, whole) = beginning(rest, most);
        let (taken, behind) = rest.split_at(count);
        match (whole, taken.last()) {
            (Some(payload), Some(last)) => {
                let mut head = first.head.clone();
                head.from_seq = Some(head.from_seq.unwrap_or(head.seq));
                head.seq = last.head.seq;
                frames.push_back(Frame::encode(&head, &first.kind, &payload));
            }
            (Some(_) | None, _) => frames.extend(taken.iter().map(Frame::stored)),
        }
        rest = behind;
    }
    // They are fewer than the events were, and may wait for a slow reader.
    frames.shrink_to_fit();
    frames
}

/// How many events at the beginning of a page belong together, and the payload that they are if they are several.
fn beginning(page: &[StoredEvent], most: usize) -> (usize, Option<String>) {
    let Some((first, behind)) = page.split_first() else { return (0, None) };
    let mut alike = behind.iter().take_while(|next| are_alike(first, next)).peekable();
    let decode = |event: &StoredEvent| serde_json::from_slice::<Event>(&event.payload).ok();
    let Some(mut whole) = alike.peek().and_then(|_| decode(first)) else { return (1, None) };
    // What this version cannot read is passed on as it is.
    let joined =
        alike.map_while(|next| decode(next).and_then(|piece| whole.merge(piece, most).is_none().then_some(())));
    let count = 1 + joined.count();
    let payload = if count > 1 { serde_json::to_string(&whole).ok() } else { None };
    (count, payload)
}

/// Whether two events may be pieces of one stream.
fn are_alike(a: &StoredEvent, b: &StoredEvent) -> bool {
    a.kind == b.kind
        && DELTAS.contains(&a.kind.as_str())
        && a.head.step_id == b.head.step_id
        && a.head.attempt == b.head.attempt
}

#[cfg(test)]
mod tests {
    use contract::event::{FileDelta, Head, OutputStream, Status, TextDelta, ThinkingDelta, ToolOutput};
    use contract::{CallId, ProjectPath, RunId, StepId};

    use super::*;

    fn stored(seq: u64, step: &str, attempt: u32, event: &Event) -> StoredEvent {
        let step_id = Some(StepId::new(step));
        let head = Head { run_id: RunId::from_bits(1), seq, from_seq: None, at: seq, step_id, attempt: Some(attempt) };
        StoredEvent { head, kind: event.kind().into(), payload: serde_json::to_vec(event).unwrap().into() }
    }

    fn pieces(text: &str) -> [Event; 5] {
        let path = |name| ProjectPath::parse(name).unwrap();
        let output = |stream| ToolOutput { call_id: CallId::new("call"), stream, text: text.into() };
        [
            TextDelta { text: text.into() }.into(),
            ThinkingDelta { text: text.into() }.into(),
            FileDelta { path: path("a"), offset: 0, text: text.into() }.into(),
            FileDelta { path: path("b"), offset: 0, text: text.into() }.into(),
            output(OutputStream::Stdout).into(),
        ]
    }

    fn shape(page: &[StoredEvent], most: usize) -> Vec<(u64, u64, String)> {
        frames(page, most).iter().map(|frame| (frame.first(), frame.seq, frame.kind.to_string())).collect()
    }

    #[test]
    fn what_the_contract_joins_is_joined_and_nothing_else() {
        for a in pieces("x") {
            for b in pieces("y") {
                let page = [stored(5, "turn-1", 1, &a), stored(6, "turn-1", 1, &b)];
                let mut whole = a.clone();
                let expected = match whole.merge(b.clone(), 100) {
                    None => vec![(5, 6, a.kind().to_owned())],
                    Some(_) => vec![(5, 5, a.kind().to_owned()), (6, 6, b.kind().to_owned())],
                };
                assert_eq!(shape(&page, 100), expected, "{a:?} {b:?}");
                if expected.len() == 1 {
                    let json = &frames(&page, 100)[0].json;
                    assert_eq!(serde_json::from_slice::<Event>(json).unwrap(), whole);
                    let value: serde_json::Value = serde_json::from_slice(json).unwrap();
                    assert_eq!((&value["from_seq"], &value["seq"], &value["at"]), (&5.into(), &6.into(), &5.into()));
                }
            }
        }
        let text = |seq, step, attempt, text: &str| stored(seq, step, attempt, &TextDelta { text: text.into() }.into());
        let other = stored(3, "turn-1", 1, &Status { message: "between".into() }.into());
        let across = [text(1, "turn-1", 1, "a"), text(2, "turn-1", 1, "b"), other, text(4, "turn-1", 1, "c")];
        let (delta, status) = ("text_delta".to_owned(), "status".to_owned());
        assert_eq!(shape(&across, 100), [(1, 2, delta.clone()), (3, 3, status), (4, 4, delta)]);
        for (step, attempt) in [("turn-2", 1), ("turn-1", 2)] {
            assert_eq!(shape(&[text(1, "turn-1", 1, "a"), text(2, step, attempt, "b")], 100).len(), 2);
        }
    }

    #[test]
    fn a_joined_delta_has_no_more_than_its_most_bytes() {
        let text = |seq, size: usize| stored(seq, "turn-1", 1, &TextDelta { text: "x".repeat(size) }.into());
        let page: Vec<_> = (1..).zip([4, 4, 4, 20, 1, 10, 1]).map(|(seq, size)| text(seq, size)).collect();
        let spans: Vec<_> = shape(&page, 10).into_iter().map(|(first, last, _)| (first, last)).collect();
        assert_eq!(spans, [(1, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)]);
    }

    #[test]
    fn what_cannot_be_read_is_passed_on_as_it_is() {
        let mut page: Vec<_> =
            (1..6).map(|seq| stored(seq, "turn-1", 1, &TextDelta { text: "x".into() }.into())).collect();
        page[2].payload = br#"{"type":"text_delta","said":"by a later version"}"#.as_slice().into();
        let frames = frames(&page, 100);
        assert_eq!(frames.iter().map(|frame| (frame.first(), frame.seq)).collect::<Vec<_>>(), [(1, 2), (3, 3), (4, 5)]);
        assert!(String::from_utf8_lossy(&frames[1].json).contains("by a later version"));
    }
}
