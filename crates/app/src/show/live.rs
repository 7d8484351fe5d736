//! A terminal with a person in front of it: finished lines scroll, one line below them says what is going on and for how long.

use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// The spinner.
pub struct Live(ProgressBar);

impl Live {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // The template is a constant that indicatif understands; its own look is as good.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed:.dim}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub fn show(&self, lines: &[String], now: &str) -> io::Result<()> {
        if !lines.is_empty() {
            self.0.suspend(|| lines.iter().try_for_each(|line| output::line(line)))?;
        }
        if self.0.message() != now {
            self.0.set_message(now.to_owned());
        }
        Ok(())
    }

    pub fn remark(&self, text: &str) {
        self.0.suspend(|| output::note(text));
    }

    pub fn close(self) {
        self.0.finish_and_clear();
    }
}
