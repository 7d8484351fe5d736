//! `baton parse`: the protocol parser at the command line. Reads as a stream and prints each frame as soon as it is known.

use std::io::{self, BufWriter, Read, Write};
use std::num::NonZeroUsize;

use clap::Args;
use contract::protocol::{Dialect, Parser};

use crate::exit::Exit;

/// Bytes that are read at once, unless `--chunk` says otherwise.
const READ_BYTES: usize = 64 * 1024;

/// Arguments of `baton parse`.
#[derive(Debug, Args)]
pub struct ParseArgs {
    /// How the model was taught to write files: `tags` or `fenced`
    #[arg(long, default_value_t = Dialect::Tags, value_name = "DIALECT")]
    dialect: Dialect,
    /// Feed the parser this many bytes at a time [default: as they come]
    #[arg(long, value_name = "BYTES")]
    chunk: Option<NonZeroUsize>,
}

/// Parses standard input.
///
/// # Errors
/// If it cannot be read, or standard output cannot be written.
pub fn perform(args: &ParseArgs) -> anyhow::Result<Exit> {
    let mut out = BufWriter::new(io::stdout().lock());
    parse(io::stdin().lock(), &mut out, args.dialect, args.chunk)?;
    Ok(Exit::Done)
}

fn parse(mut input: impl Read, out: &mut impl Write, dialect: Dialect, chunk: Option<NonZeroUsize>) -> io::Result<()> {
    let mut parser = Parser::new(dialect);
    let mut buffer = vec![0; READ_BYTES];
    let mut outcome = Ok(());
    loop {
        let length = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for piece in buffer[..length].chunks(chunk.map_or(length, NonZeroUsize::get)) {
            parser.push(piece, &mut |frame| write_frame(out, &frame, &mut outcome));
        }
        outcome?;
        outcome = out.flush();
    }
    parser.finish(&mut |frame| write_frame(out, &frame, &mut outcome));
    outcome.and_then(|()| out.flush())
}

/// Writes one frame, unless a former one could not be written.
fn write_frame(out: &mut impl Write, frame: &impl serde::Serialize, outcome: &mut io::Result<()>) {
    if outcome.is_ok() {
        *outcome = serde_json::to_writer(&mut *out, frame).map_err(io::Error::from).and_then(|()| out.write_all(b"\n"));
    }
}
