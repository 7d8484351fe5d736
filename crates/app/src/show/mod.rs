//! What a person sees of a run in a terminal.
//!
//! `story` turns events into lines and knows no terminal; `live` adds a spinner to them; `plain` is for everything else. All
//! is read from typed events, never from the model's text (E26).

mod live;
mod story;

use std::io;

use contract::Event;

use crate::output;

pub use story::{Story, bytes, seconds, summary};

/// Where lines go.
pub enum Screen {
    /// A terminal, with a spinner below the lines.
    Live(live::Live),
    /// A pipe, a file or a log: lines alone.
    Plain,
}

impl Screen {
    /// The one that fits what standard output is.
    pub fn new() -> Self {
        if output::is_live() { Self::Live(live::Live::new()) } else { Self::Plain }
    }

    /// Shows what an event adds to the story.
    ///
    /// # Errors
    /// Such as a closed pipe.
    pub fn show(&mut self, story: &mut Story, at: u64, event: &Event) -> io::Result<()> {
        let lines = story.tell(at, event);
        match self {
            Self::Live(live) => live.show(&lines, story.now()),
            Self::Plain => lines.iter().try_for_each(|line| output::line(line)),
        }
    }

    /// Says something that is no event.
    pub fn remark(&self, text: &str) {
        match self {
            Self::Live(live) => live.remark(text),
            Self::Plain => output::note(text),
        }
    }

    /// Takes the spinner away.
    pub fn close(self) {
        if let Self::Live(live) = self {
            live.close();
        }
    }
}
