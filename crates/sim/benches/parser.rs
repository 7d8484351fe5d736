//! How fast a streamed response is parsed, beside what the same bytes cost at least: a search for `<` and a copy, in the same run.
//!
//! Prints one JSON line for each case: the median of several passes over a response of that size. Chunks go in one by one, as they come
//! from a model; every frame reaches a sink. `cargo bench -p sim --bench parser [-- FILTER]` runs the cases whose name has FILTER in it.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock, the load and its arguments")]
#![expect(clippy::print_stdout, reason = "its lines are the result")]

use std::hint::black_box;
use std::time::Instant;

use contract::protocol::{Dialect, Parser};

/// A whole response of a model: prose, thinking, five files, an install and a command; 730 bytes for each element.
const RESPONSE: &str = include_str!("response.txt");
/// One file that never ends, with the code of the first file in it: what content costs without elements.
const FILE_BEGINS: &str = "<file path=\"src/App.tsx\">\n";
const KB: usize = 1024;
const SIZES: [(&str, usize); 5] =
    [("256KB", 256 * KB), ("1MB", 1024 * KB), ("4MB", 4096 * KB), ("16MB", 16 * 1024 * KB), ("64MB", 64 * 1024 * KB)];
const CHUNKS: [(&str, usize); 5] = [("4", 4), ("16", 16), ("64", 64), ("512", 512), ("whole", usize::MAX)];
/// Passes of which the median counts, and the least time that one measurement takes: small responses are repeated within it.
const PASSES: usize = 7;
const LEAST_SECONDS: f64 = 0.05;

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let code =
        RESPONSE.split_once(FILE_BEGINS).and_then(|(_, rest)| rest.split_once("</file>")).map_or("", |(code, _)| code);
    for (size_name, size) in SIZES {
        let (mut response, mut file) = (Vec::new(), FILE_BEGINS.as_bytes().to_vec());
        for (chunk_name, chunk) in CHUNKS {
            let case = format!("chunk={chunk_name} size={size_name}");
            measure(&filter, &case, "tags dialect", size, || parse(filled(&mut response, RESPONSE, size), chunk));
            let case = format!("one-file chunk={chunk_name} size={size_name}");
            measure(&filter, &case, "tags dialect", size, || parse(filled(&mut file, code, size), chunk));
        }
        measure(&filter, &format!("memchr size={size_name}"), "reference: count every <", size, || {
            black_box(memchr::memchr_iter(b'<', black_box(filled(&mut response, RESPONSE, size))).count());
        });
        let mut copy = Vec::new();
        measure(&filter, &format!("memcpy size={size_name}"), "reference: one copy", size, || {
            copy.clear();
            copy.extend_from_slice(black_box(filled(&mut response, RESPONSE, size)));
            black_box(&copy);
        });
    }
}

/// The text, repeated up to that size; written at the first call.
fn filled<'a>(bytes: &'a mut Vec<u8>, text: &str, size: usize) -> &'a [u8] {
    while bytes.len() < size {
        let piece = text.len().min(size - bytes.len());
        bytes.extend_from_slice(&text.as_bytes()[..piece]);
    }
    bytes
}

fn parse(response: &[u8], chunk: usize) {
    let mut parser = Parser::new(Dialect::Tags);
    let mut sink = |frame: contract::protocol::Frame<'_>| {
        black_box(&frame);
    };
    for bytes in response.chunks(chunk.min(response.len())) {
        parser.push(bytes, &mut sink);
    }
    parser.finish(&mut sink);
}

/// Measures one case by the clock, and again by the processor time that its thread had: steadier where the machine is shared.
fn measure(filter: &str, case: &str, setting: &str, bytes: usize, mut work: impl FnMut()) {
    if !case.contains(filter) {
        return;
    }
    work();
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..PASSES {
        let (start, busy) = (Instant::now(), busy_seconds());
        let mut rounds = 0;
        while rounds == 0 || start.elapsed().as_secs_f64() < LEAST_SECONDS {
            work();
            rounds += 1;
        }
        wall.push(start.elapsed().as_secs_f64() / f64::from(rounds));
        cpu.extend(busy_seconds().zip(busy).map(|(after, before)| (after - before) / f64::from(rounds)));
    }
    let setting = format!("{setting}, median of {PASSES}, one thread");
    report(case, wall, bytes, "MB/s", &setting);
    report(&format!("{case} cpu"), cpu, bytes, "MB per CPU second", &setting);
}

fn report(case: &str, mut seconds: Vec<f64>, bytes: usize, unit: &str, setting: &str) {
    seconds.sort_by(f64::total_cmp);
    let Some(median) = seconds.get(seconds.len() / 2) else { return };
    let value = (bytes as f64 / 1e6 / median).round();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load1 = load.split_once(' ').map_or("null", |(load1, _)| load1);
    println!(
        r#"{{"bench":"parser","case":"{case}","value":{value},"unit":"{unit}","setting":"{setting}","load1":{load1}}}"#
    );
}

/// Seconds that this thread has had a processor, where the kernel tells.
fn busy_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(stat.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}
