//! What a door asks the store for where no method of the runtime says it yet: graphs, and runs that start runs.

use std::sync::Arc;

use contract::event::{Intent, Session, Work};
use contract::{ChatId, ProjectId};
use runtime::Runtime;
use runtime::ports::store::{Admission, Begun, Door, NewChat};
use runtime::ports::world::new_id;

use super::person::USER;

/// A run in a chat of its own.
pub(super) fn new_chat(runtime: &Arc<Runtime>, text: &str, work: Work) -> Admission {
    let world = runtime.ports.world.as_ref();
    let slug = format!("own-{:x}", world.random() & 0xffff_ffff_ffff);
    let admission = in_chat(runtime, new_id(world), new_id(world), text, work);
    let session = Session { is_new_chat: true, follow_up: false, intent: Intent::Generate, ..admission.session };
    Admission { session, new_chat: Some(NewChat { title: text.to_owned(), slug }), ..admission }
}

/// A run in a chat that there is.
pub(super) fn in_chat(
    runtime: &Arc<Runtime>,
    chat_id: ChatId,
    project_id: ProjectId,
    text: &str,
    work: Work,
) -> Admission {
    let (world, limits) = (runtime.ports.world.as_ref(), &runtime.limits);
    Admission {
        user: USER,
        run_id: new_id(world),
        session: Session {
            chat_id,
            project_id,
            user_message_id: new_id(world),
            assistant_message_id: new_id(world),
            is_new_chat: false,
            request: text.to_owned(),
            intent: Intent::Edit,
            follow_up: true,
            template: runtime.template.name.clone(),
            model: runtime.model(),
            work,
            fork: None,
        },
        new_chat: None,
        idempotency_key: None,
        at: world.now_ms(),
        most_active: [
            ("active_runs_per_chat", limits.active_runs_per_chat),
            ("active_runs_per_user", limits.active_runs_per_user),
            ("active_runs_global", limits.active_runs_global),
        ],
        parent: None,
        most_depth: ("child_run_depth", limits.child_run_depth),
        alone: false,
        log: Begun::default(),
        door: Door::Message,
    }
}
