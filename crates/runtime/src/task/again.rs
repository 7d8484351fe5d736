//! What a call has changed, once more: where a recorded result is taken over, its command is not run again, and the model may have
//! written the same files again meanwhile.

use contract::CallId;
use contract::event::{Author, Event, FileCompleted, FileDeleted};

use super::{Round, Task};

impl Task {
    /// The changes of files that stand before a result that is taken over; none if it is none, or brings nothing along. `taken` is the
    /// call for which this was asked last.
    pub(super) fn brought_along(
        &mut self,
        round: &mut Round,
        event: &Event,
        taken: &mut Option<CallId>,
    ) -> Option<Vec<Event>> {
        let Event::ToolFinished(finished) = event else { return None };
        if !finished.replayed || taken.replace(finished.call_id.clone()).as_ref() == Some(&finished.call_id) {
            return None;
        }
        let call = self.state.calls.iter().find(|call| call.id == finished.call_id)?;
        let (made, _) = engine::tools::recorded(&self.state, call)?;
        let mut events = vec![];
        for (path, content) in self.project.again(&made.id) {
            let by = Author::Command;
            let event: Event = match content {
                Some((content, sha256)) => {
                    let bytes = content.len() as u64;
                    self.project.put(path.clone(), content, sha256.clone(), by);
                    FileCompleted { path, bytes, sha256, by }.into()
                }
                None => {
                    let gone = Event::from(FileDeleted { path, by });
                    // Nothing of it has to be fetched.
                    let _ = self.project.fold(&gone);
                    gone
                }
            };
            self.note_file(round, &event);
            events.push(event);
        }
        (!events.is_empty()).then_some(events)
    }
}
