//! Responses as real models write them, and a few thousand damaged copies of each kind: `check` holds for all (E7).
//!
//! Put a response that once went wrong into `corpus/`, run the test and read the new lines of its snapshot.
#![expect(clippy::disallowed_methods, reason = "reads the corpus and the seed")]
#![expect(clippy::unwrap_used, reason = "a corpus that cannot be read is a failure")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use contract::protocol::check::{check, read};
use contract::protocol::{Dialect, Frame};

/// How many damaged responses are tried, unless `PROTOCOL_MUTATIONS` says otherwise.
const MUTATIONS: u64 = 4_000;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// One line for each frame that is not content; content by its length.
fn outline(frames: &[Frame<'_>]) -> String {
    let lines = frames.iter().map(|frame| match frame {
        Frame::Text { content } => format!("text of {}", content.len()),
        Frame::ThinkingContent { content } => format!("thinking_content of {}", content.len()),
        Frame::FileContent { content } => format!("file_content of {}", content.len()),
        Frame::Error(fault) => format!("error {} in {}", fault.code.as_str(), fault.element.as_str()),
        other => {
            let json = serde_json::to_value(other).unwrap();
            let name = json["type"].as_str().unwrap().to_owned();
            let rest: Vec<_> = json.as_object().unwrap().iter().filter(|(key, _)| *key != "type").collect();
            rest.iter().fold(name, |line, (key, value)| format!("{line} {key}={value}"))
        }
    });
    lines.map(|line| format!("  {line}\n")).collect()
}

#[test]
fn the_corpus_reads_as_it_did() {
    let mut all = String::new();
    for (name, bytes) in corpus() {
        let dialect = if name.starts_with("fenced-dialect") { Dialect::Fenced } else { Dialect::Tags };
        all += &format!("{name}\n{}", outline(&read(dialect, &bytes, 0)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn what_must_hold_holds_for_the_corpus_and_for_every_beginning_of_it() {
    for (name, bytes) in corpus() {
        for cut in 0..=bytes.len() {
            if let Err(panic) = catch_unwind(|| check(&bytes[..cut])) {
                let note = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                panic!("{name}, its first {cut} bytes: {note}");
            }
        }
    }
}

/// splitmix64: small, and its whole state is the seed that a failure prints.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    fn range(&mut self, len: usize, most: usize) -> std::ops::Range<usize> {
        let from = self.below(len + 1);
        from..(from + self.below(most + 1)).min(len)
    }
}

/// What the grammar is made of, so that damage hits where it hurts.
const PIECES: &[&str] = &[
    "<",
    ">",
    "/",
    "\"",
    "'",
    "\\",
    "=",
    "\n",
    "\r",
    "\r\n",
    " ",
    "\t",
    "`",
    "```",
    "~~~",
    "</",
    "</file>",
    "<file path=\"a\">",
    "</edit>",
    "<edit path='a'>",
    "<thinking>",
    "</thinking>",
    "<sandbox>",
    "</sandbox>",
    "<done/>",
    "<install>",
    "</install>",
    "<skill name='a'>",
    "</skill>",
    "<command command='a'/>",
    "[FILE: a]\n```\n",
    "[FILE:",
    "\n```\n",
    "<<<<<<< SEARCH\n",
    "=======\n",
    ">>>>>>> REPLACE\n",
    "baton_",
    "EDWARD_",
    "\u{e9}",
    "\u{1F44B}",
    "\u{2028}",
    "\0",
    "                                                                 ",
];

fn mutated(seed: u64, corpus: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = corpus[random.below(corpus.len())].1.clone();
    for _ in 0..=random.below(6) {
        let range = random.range(bytes.len(), 40);
        match random.below(6) {
            0 => drop(bytes.drain(range)),
            1 => bytes.truncate(range.start),
            2 => {
                let other = &corpus[random.below(corpus.len())].1;
                let part = random.range(other.len(), 200);
                bytes.splice(range, other[part].iter().copied());
            }
            3 => {
                let copy = bytes[range.clone()].to_vec();
                bytes.splice(range.start..range.start, copy);
            }
            4 if !range.is_empty() => bytes[range.start] = random.below(256) as u8,
            _ => {
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(range.start..range.start, piece.bytes());
            }
        }
    }
    bytes
}

/// `PROTOCOL_SEED=n` runs one mutation alone.
#[test]
fn what_must_hold_holds_for_damaged_responses() {
    let corpus = corpus();
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("PROTOCOL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PROTOCOL_MUTATIONS").unwrap_or(MUTATIONS),
    };
    for seed in seeds {
        let bytes = mutated(seed, &corpus);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&bytes))) {
            let text = String::from_utf8_lossy(&bytes);
            // Shown only when a test fails, by the test runner.
            std::io::Write::write_all(&mut std::io::stderr(), format!("PROTOCOL_SEED={seed}\n{text:?}\n").as_bytes())
                .unwrap();
            resume_unwind(panic);
        }
    }
}
