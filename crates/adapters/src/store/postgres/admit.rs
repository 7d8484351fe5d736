//! Admission: message, run, first events and claimability in one transaction, or nothing (E1).

use contract::api::Accepted;
use contract::event::{NewEvent, Parent, RunQueued};
use contract::{ChatId, MessageId, ProjectId, RunId};
use runtime::ports::store::{Admission, AdmitError, Entry, RowChange, StoreError, StoreFault, run_title};
use sqlx::postgres::PgRow;

use super::append::Events;
use super::column::{Key, bits, count, escape, get, int, small, some_bits, uint};
use super::links::{Ask, Links};
use super::rows::Rows;

/// Admits, or refuses and leaves nothing.
pub(super) async fn admit(links: &Links, admission: Admission) -> Result<Accepted, AdmitError> {
    let ours = |row: &RowChange| match row {
        RowChange::Publish(version) => {
            version.run_id == admission.run_id && version.project_id == admission.session.project_id
        }
        RowChange::Run { .. }
        | RowChange::Progress { .. }
        | RowChange::Answered { .. }
        | RowChange::AssistantText { .. }
        | RowChange::AssistantReset { .. }
        | RowChange::ToolRequested { .. }
        | RowChange::ToolFinished { .. }
        | RowChange::Build { .. }
        | RowChange::BuildShown { .. } => true,
    };
    if !admission.log.rows.iter().all(ours) {
        return Err(
            StoreError::new(StoreFault::Refused, "a run publishes as itself and to its own project alone").into()
        );
    }
    let (position, parent) = place(links, &admission).await?;
    let at = admission.at;
    let queued = Entry::of(&NewEvent { at, step: None, event: RunQueued { position, parent }.into() })?;
    let session = Entry::of(&NewEvent { at, step: None, event: admission.session.clone().into() })?;
    let first = [queued, session];
    let admitted = Admitted { admission: &admission, parent, first: &first, fingerprint: admission.fingerprint() };
    // What cannot be said is found before anything is asked.
    admitted.rows()?;
    let answer = links.write(|| admitted.ask()).await?;
    let answer =
        answer.first().ok_or_else(|| StoreError::new(StoreFault::Damaged, "an admission without an answer"))?;
    verdict(answer, &admission)
}

/// Active root runs now, and what the run has of the one that starts it. Neither the root of a run nor its depth ever changes,
/// and whether the parent goes on is asked again in the transaction.
async fn place(links: &Links, admission: &Admission) -> Result<(u32, Option<Parent>), StoreError> {
    let ask = || {
        sqlx::query(
            "SELECT (SELECT sum(active)::bigint FROM slots), c.root_id, r.depth, root.created_at
             FROM (SELECT $1 AS run_id) parent LEFT JOIN claims c ON c.run_id = parent.run_id
             LEFT JOIN runs r ON r.id = c.run_id LEFT JOIN runs root ON root.id = c.root_id",
        )
        .bind(admission.parent.map(|claim| Key(claim.run_id.bits())))
    };
    let rows = links.read(ask).await?;
    let Some(row) = rows.first() else { return Ok((0, None)) };
    let parent = match (admission.parent, some_bits(row, 1)?) {
        (Some(claim), Some(root)) => Some(Parent {
            run_id: claim.run_id,
            root_id: RunId::from_bits(root),
            depth: small(row, 2)?.saturating_add(1),
            since: uint(row, 3)?,
        }),
        _ => None,
    };
    Ok((u32::try_from(uint(row, 0)?).unwrap_or(u32::MAX), parent))
}

/// An admission with everything that can be made outside of the transaction.
struct Admitted<'a> {
    admission: &'a Admission,
    parent: Option<Parent>,
    first: &'a [Entry; 2],
    fingerprint: [u8; 32],
}

impl<'a> Admitted<'a> {
    fn rows(&self) -> Result<Rows<'a>, StoreError> {
        let mut rows = Rows::default();
        let end = count(self.first.len() + self.admission.log.events.len());
        rows.add(self.admission.run_id, end, &self.admission.log.rows)?;
        Ok(rows)
    }

    fn ask(&self) -> Ask<'a> {
        let Admission { user, run_id, session, new_chat, idempotency_key, .. } = self.admission;
        let mut events = Events::default();
        events.add(*run_id, 0, self.first.iter().chain(&self.admission.log.events));
        let ask = sqlx::query(
            "SELECT verdict, run, chat, message, project FROM baton_admit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
             $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36,
             $37, $38, $39, $40, $41)",
        );
        let ask = ask
            .bind(Key(user.bits()))
            .bind(Key(run_id.bits()))
            .bind(Key(session.chat_id.bits()))
            .bind(Key(session.project_id.bits()))
            .bind(int(self.admission.at))
            .bind(new_chat.is_some())
            .bind(new_chat.as_ref().map(|new| escape(&new.title)))
            .bind(new_chat.as_ref().map(|new| escape(&new.slug)))
            .bind(escape(&run_title(&session.request)).into_owned())
            .bind(escape(&session.request))
            .bind(Key(session.user_message_id.bits()))
            .bind(Key(session.assistant_message_id.bits()))
            .bind(idempotency_key.as_deref().map(escape))
            .bind(self.fingerprint.to_vec())
            .bind(self.admission.most_active.map(|(_, value)| int(value)).to_vec())
            .bind(self.admission.alone)
            .bind(self.admission.log.ends)
            .bind(self.admission.parent.map(|claim| Key(claim.run_id.bits())))
            .bind(self.admission.parent.map(|claim| int(claim.epoch)))
            .bind(self.parent.map(|parent| Key(parent.root_id.bits())))
            .bind(int(self.admission.most_depth.1));
        let ask = events.bind_bare(ask);
        match self.rows() {
            Ok(rows) => rows.bind(ask),
            // Looked at before; the statement then lacks values and is refused.
            Err(_) => ask,
        }
    }
}

/// What `baton_admit` answers.
fn verdict(row: &PgRow, admission: &Admission) -> Result<Accepted, AdmitError> {
    let limit = |(limit, value)| AdmitError::Limit { limit, value };
    let [of_chat, of_user, of_all] = admission.most_active;
    Err(match get::<i32>(row, 0)? {
        0 | 1 => {
            return Ok(Accepted {
                run_id: RunId::from_bits(bits(row, 1)?),
                chat_id: ChatId::from_bits(bits(row, 2)?),
                message_id: MessageId::from_bits(bits(row, 3)?),
                project_id: ProjectId::from_bits(bits(row, 4)?),
            });
        }
        2 => AdmitError::KeyReused,
        3 => AdmitError::NoSuchChat,
        4 => StoreError::new(StoreFault::Refused, "the session names a project of another chat").into(),
        5 => AdmitError::ParentOver,
        6 => limit(admission.most_depth),
        7 => AdmitError::ProjectBusy { run: RunId::from_bits(bits(row, 1)?) },
        8 => limit(of_chat),
        9 => limit(of_user),
        10 => limit(of_all),
        other => StoreError::new(StoreFault::Damaged, format!("an admission with the verdict {other}")).into(),
    })
}
