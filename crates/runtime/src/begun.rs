//! A log that does not begin empty: of a fork, or of a run that was imported. What it draws is what a worker would have drawn.

use contract::event::{Event, NewEvent, RunQueued, Session};
use engine::RunState;

use crate::ports::store::{Begun, Entry, RowChange, StoreError};
use crate::projection;

/// The state of a run with its first two events, which every admission writes.
pub(crate) fn admitted(at: u64, session: Session) -> RunState {
    let mut state = RunState::default();
    for event in [Event::from(RunQueued { position: 0, parent: None }), session.into()] {
        state.fold(&NewEvent { at, step: None, event });
    }
    state
}

/// What a log goes on with after these two, the rows that it draws, and the state that it comes to.
pub(crate) fn begun(at: u64, session: Session, events: &[NewEvent]) -> Result<(Begun, RunState), StoreError> {
    let mut state = admitted(at, session);
    let mut begun = Begun::default();
    for entry in events {
        state.fold(entry);
        for row in projection::rows(&state, entry) {
            if let RowChange::AssistantReset { .. } = row {
                // It holds all of the answer that still counts.
                begun
                    .rows
                    .retain(|row| !matches!(row, RowChange::AssistantText { .. } | RowChange::AssistantReset { .. }));
            }
            projection::add(&mut begun.rows, row);
        }
        begun.events.push(Entry::of(entry)?);
    }
    begun.ends = state.ended;
    Ok((begun, state))
}
