//! Properties of the parser over generated responses: what was written is what is read, nothing waits longer than it must, and what is
//! held back is bounded (E7).
#![expect(clippy::unwrap_used, reason = "a generator that cannot write its own input is a broken test")]

use std::borrow::Cow;

use contract::ProjectPath;
use contract::event::Replacement;
use contract::protocol::check::{check, read, read_chunks};
use contract::protocol::{Dialect, Frame, MAX_HELD_BYTES, MAX_SHORT_BYTES, MAX_TAG_BYTES, Parser};
use proptest::prelude::*;

/// Pieces of content that come close to the grammar without being of it.
const PIECES: &[&str] = &[
    "a",
    "B",
    "const x = 1;",
    "<",
    "</",
    "<b>",
    "</div>",
    "</fil",
    "<files>",
    "<don",
    ">",
    "/>",
    "=>",
    " ",
    "    ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\r\n\n",
    "```",
    "\n```\n",
    "````",
    "`",
    "&lt;",
    "$'",
    "\\n",
    "[",
    "[FILE",
    "\u{e9}",
    "\u{65e5}\u{672c}",
    "\u{1F44B}",
    "\u{200d}",
    "\u{2028}",
    "\0",
    "\u{7f}",
];

fn content() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat())
}

/// Content in which protocol tags may stand, as in a source file that is about them.
fn file_content() -> impl Strategy<Value = String> {
    let tags = &[
        "<done/>",
        "<thinking>",
        "</thinking>",
        "</sandbox>",
        "<file path=\"x\">",
        "<command command='x'/>",
        "</edit>",
        "\"</file>\"",
        "x</file> y",
    ][..];
    prop::collection::vec(prop_oneof![content(), prop::sample::select(tags).prop_map(str::to_owned)], 0..6)
        .prop_map(|parts| parts.concat())
}

#[derive(Debug, Clone)]
enum Item {
    Text(String),
    Thinking(String),
    File { content: String, crlf: bool },
    Edit(Vec<(String, String)>),
    Command(Vec<String>),
    Search(String, Option<u32>),
    Done,
}

fn item() -> impl Strategy<Value = Item> {
    // A marker alone on its line would end a block; no piece is one.
    let block =
        || (content().prop_filter("something to search", |s| !s.trim_matches(['\r', '\n']).is_empty()), content());
    prop_oneof![
        content().prop_map(Item::Text),
        content().prop_map(Item::Thinking),
        (file_content(), any::<bool>()).prop_map(|(content, crlf)| Item::File { content, crlf }),
        prop::collection::vec(block(), 1..4).prop_map(Item::Edit),
        prop::collection::vec(any::<String>(), 0..4).prop_map(Item::Command),
        ("[^\"\\\\]{1,20}[a-z]", any::<Option<u32>>()).prop_map(|(query, most)| Item::Search(query, most)),
        Just(Item::Done),
    ]
}

/// Writes items as a model does, and says which frames they are.
fn write(items: &[Item]) -> (String, Vec<Frame<'static>>) {
    let mut text = String::new();
    let mut frames: Vec<Frame<'static>> = Vec::new();
    let owned = |content: &String| Cow::Owned(content.clone());
    for (n, item) in items.iter().enumerate() {
        match item {
            Item::Text(content) => {
                text += content;
                if !content.is_empty() {
                    let next = Frame::Text { content: owned(content) };
                    let next = match frames.last_mut() {
                        Some(last) => last.merge(next),
                        None => Some(next),
                    };
                    frames.extend(next);
                }
            }
            Item::Thinking(content) => {
                text += &format!("<thinking>\n{content}\n</thinking>");
                frames.push(Frame::ThinkingStart);
                frames.extend((!content.is_empty()).then(|| Frame::ThinkingContent { content: owned(content) }));
                frames.push(Frame::ThinkingEnd);
            }
            Item::File { content, crlf } => {
                let fence_like = content.trim_start_matches([' ', '\t']).starts_with("```");
                let path = format!("src/{n}.{}", if fence_like { "md" } else { "ts" });
                let end = if *crlf { "\r\n" } else { "\n" };
                text += &format!("<file path=\"{path}\">{end}{content}{end}</file>");
                frames.push(Frame::FileStart { path: ProjectPath::parse(&path).unwrap() });
                frames.extend((!content.is_empty()).then(|| Frame::FileContent { content: owned(content) }));
                frames.push(Frame::FileEnd { complete: true });
            }
            Item::Edit(blocks) => {
                text += &format!("<edit path='{n}'>\n");
                for (search, replace) in blocks {
                    text += &format!("<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n");
                }
                text += "</edit>";
                let blocks =
                    blocks.iter().map(|(s, r)| Replacement { search: s.clone(), replace: r.clone() }).collect();
                frames.push(Frame::Edit { path: ProjectPath::parse(&n.to_string()).unwrap(), blocks });
            }
            Item::Command(args) => {
                let json = serde_json::to_string(args).unwrap().replace('\'', "\\u0027");
                text += &format!("<command command=\"run\" args='{json}'/>");
                frames.push(Frame::Command { command: "run".into(), args: args.clone() });
            }
            Item::Search(query, most) => {
                let most_text = most.map(|most| format!(" max_results='{most}'")).unwrap_or_default();
                text += &format!("<web_search query=\"{query}\"{most_text}>");
                frames.push(Frame::WebSearch { query: query.clone(), max_results: *most });
            }
            Item::Done => {
                text += "<done/>";
                frames.push(Frame::Done);
            }
        }
    }
    (text, frames)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_what_is_read_byte_for_byte(items in prop::collection::vec(item(), 0..8), chunk in 0usize..64) {
        let (text, frames) = write(&items);
        prop_assert_eq!(read(Dialect::Tags, text.as_bytes(), chunk), frames, "{}", text);
    }

    #[test]
    fn a_fenced_block_is_read_byte_for_byte(content in file_content(), chunk in 0usize..64) {
        // A fence longer than any in the content cannot be closed by it.
        let text = format!("[FILE: a.md]\n~~~~~\n{content}\n~~~~~\n\n<done/>");
        let frames = read(Dialect::Fenced, text.as_bytes(), chunk);
        let read: String = frames.iter().filter_map(|f| match f { Frame::FileContent { content } => Some(&**content), _ => None }).collect();
        prop_assert_eq!(read, content);
        let closed = frames.contains(&Frame::FileEnd { complete: true }) && frames.contains(&Frame::Done);
        prop_assert!(closed);
    }

    #[test]
    fn chunks_cut_anywhere_give_the_same_frames(items in prop::collection::vec(item(), 0..6), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let (text, _) = write(&items);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]);
        prop_assert_eq!(read_chunks(Dialect::Tags, chunks), read(Dialect::Tags, text.as_bytes(), 0));
    }

    #[test]
    fn what_must_hold_holds_for_anything(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"<>/`\n\r \"'=\\aef[]"[..])], 0..200)) {
        check(&bytes);
    }
}

/// Every place that content can stand in.
const PLACES: &[&str] = &[
    "",
    "<sandbox>",
    "<sandbox>words ",
    "<thinking>",
    "<file path='a.md'>\n",
    "<file path='a.ts'>\n```\n",
    "<file path='/a'>\n",
    "[FILE: a]\n```\n",
    "[FILE: /a]\n~~~\n",
];
const KB: usize = 1024;

#[test]
fn what_is_held_back_is_short_whatever_fills_a_response() {
    let fillers = [
        "a",
        " ",
        "\n",
        "\r",
        "\r\n",
        "\t\n",
        "<",
        "</",
        "</ ",
        "</file ",
        "</file></",
        "`",
        "```\n",
        "~~~ ",
        "```\n\n<",
        "\n   ",
        "[",
        "[FILE:",
        "\n[FILE: a",
        "[FILE: a]\n",
        "\u{1F44B}",
        "</baton_",
        "<edward_",
        "\n<edward_web_searc ",
    ];
    let broken: [&[u8]; 3] = [b"\xF0\x9F", b"\x80", b"\xE2\x82\n"];
    for place in PLACES {
        for filler in fillers.iter().map(|f| f.as_bytes()).chain(broken) {
            let bytes = [place.as_bytes(), &filler.repeat(32 * KB / filler.len())].concat();
            for (dialect, chunk) in [(Dialect::Tags, 5), (Dialect::Fenced, 11), (Dialect::Fenced, 4 * KB)] {
                let mut parser = Parser::new(dialect);
                for piece in bytes.chunks(chunk) {
                    parser.push(piece, &mut |_| {});
                    let held = parser.held_back();
                    assert!(
                        held <= MAX_SHORT_BYTES,
                        "{held} bytes in {place:?} filled with {:?}",
                        String::from_utf8_lossy(filler)
                    );
                }
            }
        }
    }
}

#[test]
fn an_open_tag_and_an_open_body_are_bounded() {
    for (beginning, most) in [
        ("<file path='", MAX_TAG_BYTES),
        ("<thinking>\n<file path='", MAX_TAG_BYTES + 2),
        ("<edit path='a'>", MAX_HELD_BYTES),
        ("<install>", MAX_HELD_BYTES),
        ("<skill name='a'>", MAX_HELD_BYTES),
    ] {
        let mut parser = Parser::new(Dialect::Tags);
        let mut peak = 0;
        parser.push(beginning.as_bytes(), &mut |_| {});
        for _ in 0..3 * KB {
            parser.push(&[b'x'; KB], &mut |_| {});
            peak = peak.max(parser.held_back());
        }
        assert!(peak > most / 2 && peak <= most, "{beginning}: {peak}");
        assert!(parser.held_back() < KB, "{beginning}: given up, nothing is held");
    }
}

#[test]
fn content_leaves_at_once_and_only_what_is_undecided_waits() {
    for (place, next, held) in [
        ("", "words ", 0),
        ("", "words \n", 0),
        ("", "a <", 1),
        ("", "a <b", 2),
        ("", "a <x", 0),
        ("", "a <div", 0),
        ("", "a </fil", 5),
        ("", "caf\u{e9}", 0),
        ("<sandbox>", "\n  ", 3),
        ("<sandbox>", "\n  w", 0),
        ("<thinking>", "plan\n", 1),
        ("<thinking>", "plan\n\n", 1),
        ("<thinking>", "plan <f", 2),
        ("<file path='a'>", "x\r", 1),
        ("<file path='a'>", "x\r\n", 2),
        ("<file path='a'>", "x <", 1),
        ("<file path='a'>", "x <f", 0),
        ("<file path='a'>", "x\n</file", 7),
        ("<file path='a'>", "x </file>  ", 9),
        ("<file path='a'>", "x </file> ;", 0),
        ("<file path='a'>", "``", 2),
        ("<file path='a'>", "```tsx", 6),
        ("<file path='a'>```\n", "```", 3),
        ("<file path='a'>```\n", "x\n  ", 3),
        ("<file path='a'>```\n", "x\n    ", 0),
        ("<file path='a.md'>", "```tsx", 0),
        ("<edit path='a'>", "x", 1),
    ] {
        let mut parser = Parser::new(Dialect::Tags);
        parser.push(place.as_bytes(), &mut |_| {});
        parser.push(next.as_bytes(), &mut |_| {});
        assert_eq!(parser.held_back(), held, "{place:?} and then {next:?}");
    }
    let mut parser = Parser::new(Dialect::Tags);
    parser.push("\u{65e5}".as_bytes().split_at(2).0, &mut |frame| panic!("{frame:?}"));
    assert_eq!(parser.held_back(), 2, "half a character");
}

#[test]
fn a_parser_reads_one_response_after_the_other() {
    let mut parser = Parser::new(Dialect::Tags);
    for beginning in ["<sandbox><file path='a'>x", "<thinking>", "<edit path='a'>", "<file path='/'>", "a <done", ""] {
        parser.push(beginning.as_bytes(), &mut |_| {});
        parser.finish(&mut |_| {});
        let mut frames = Vec::new();
        parser.push(b"x<done/>", &mut |frame| frames.push(frame.into_owned()));
        parser.finish(&mut |frame| frames.push(frame.into_owned()));
        assert_eq!(frames, [Frame::Text { content: "x".into() }, Frame::Done], "after {beginning}");
    }
}

#[test]
fn content_borrows_from_the_input() {
    let text = "some words <b> and more";
    let mut parser = Parser::new(Dialect::Tags);
    parser.push(text.as_bytes(), &mut |frame| match frame {
        Frame::Text { content: Cow::Borrowed(piece) } => {
            assert!(text.as_bytes().as_ptr_range().contains(&piece.as_ptr()))
        }
        other => panic!("{other:?}"),
    });
}
