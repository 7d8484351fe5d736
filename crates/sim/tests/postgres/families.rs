//! One writer per project (promise 7 of contracts.md § 5) and cancels of families (E16), while everything happens at once.
#![expect(clippy::disallowed_methods, reason = "has workers in tasks of their own")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use adapters::store::postgres::Postgres;
use contract::RunId;
use futures::future::join_all;
use runtime::ports::Store;
use runtime::ports::store::{Admission, AdmitError, Claim, InboxItem};
use sim::conformance::store::Clerk;
use sim::servers;

use super::room::{LONG_MS, ended, exact, is_whole, open};

const PROJECTS: usize = 3;
const ROOTS: usize = 60;
const WORKERS: usize = 6;

/// Who works where.
struct Floor {
    clerk: Clerk,
    firsts: Vec<Admission>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Project and root of every run.
    runs: HashMap<RunId, (usize, RunId)>,
    /// The family that works on a project, and how many of it.
    at_work: [Option<(RunId, u32)>; PROJECTS],
    ended: usize,
}

impl Floor {
    fn begin(&self, run: RunId) -> (usize, RunId) {
        let mut seen = self.seen.lock().unwrap();
        let (project, root) = seen.runs[&run];
        let at_work = &mut seen.at_work[project];
        let (family, members) = at_work.get_or_insert((root, 0));
        assert_eq!(*family, root, "another family has the project");
        *members += 1;
        (project, root)
    }

    fn end(&self, project: usize) {
        let mut seen = self.seen.lock().unwrap();
        seen.ended += 1;
        let at_work = &mut seen.at_work[project];
        *at_work = at_work.and_then(|(root, members)| (members > 1).then(|| (root, members - 1)));
    }

    /// A root starts a child, which may outlive it. One whose root ended before it began was stopped with it: it changes nothing, so
    /// it has waited for nobody.
    async fn perform(&self, store: &Postgres, claim: Claim) {
        if claim.epoch == 1 && !store.inbox(claim.run_id).await.unwrap().is_empty() {
            self.seen.lock().unwrap().ended += 1;
            store.append(ended(claim, 2)).await.unwrap();
            return;
        }
        let (project, root) = self.begin(claim.run_id);
        if root == claim.run_id {
            let child = Admission { parent: Some(claim), ..self.clerk.follow_up(&self.firsts[project]) };
            self.seen.lock().unwrap().runs.insert(child.run_id, (project, root));
            store.admit(child).await.unwrap();
        }
        tokio::task::yield_now().await;
        self.end(project);
        store.append(ended(claim, 2)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_families_have_a_project_at_once() {
    let server = servers::Postgres::start();
    let stores = [open(&server.url(), &exact()).await, open(&server.url(), &exact()).await].map(Arc::new);
    let clerk = Clerk::new();
    let firsts: Vec<_> = (0..PROJECTS).map(|_| clerk.new_chat(clerk.id())).collect();
    let floor = Arc::new(Floor { clerk, firsts, seen: Mutex::default() });
    for number in 0..ROOTS {
        let (project, first) = (number % PROJECTS, &floor.firsts[number % PROJECTS]);
        let admission = if number < PROJECTS { first.clone() } else { floor.clerk.follow_up(first) };
        floor.seen.lock().unwrap().runs.insert(admission.run_id, (project, admission.run_id));
        stores[0].admit(admission).await.unwrap();
    }
    let workers = (0..WORKERS).map(|worker| {
        let (store, floor) = (stores[worker % 2].clone(), floor.clone());
        tokio::spawn(async move {
            while floor.seen.lock().unwrap().ended < 2 * ROOTS {
                let claims = store.claim(&worker.to_string(), 2, 0, LONG_MS).await.unwrap();
                join_all(claims.into_iter().map(|claim| floor.perform(&store, claim))).await;
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    is_whole(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_children_that_are_started_at_the_same_moment() {
    let server = servers::Postgres::start();
    let (store, clerk) = (open(&server.url(), &exact()).await, Clerk::new());
    for round in 0..10 {
        let (root, claim) = clerk.running(&store).await;
        let child = || Admission { parent: Some(claim), ..clerk.follow_up(&root) };
        let children: Vec<_> = (0..12).map(|_| child()).collect();
        let cancel = async {
            for _ in 0..round % 4 {
                store.admit(child()).await.unwrap();
            }
            store.put_inbox(claim.run_id, InboxItem::Cancel { by: "user".into() }, 1).await.unwrap();
        };
        let (answers, ()) = futures::join!(join_all(children.iter().map(|child| store.admit(child.clone()))), cancel);
        for (answer, child) in answers.iter().zip(&children) {
            let inbox = store.inbox(child.run_id).await.unwrap();
            match answer {
                Ok(_) => assert_eq!(inbox.len(), 1, "it was started, so it is told"),
                Err(AdmitError::ParentOver) => assert!(inbox.is_empty()),
                Err(other) => panic!("{other}"),
            }
        }
        store.append(ended(claim, 2)).await.unwrap();
        let orphans = store.claim("worker", 100, 0, LONG_MS).await.unwrap();
        for answer in join_all(orphans.iter().map(|claim| store.append(ended(*claim, 2)))).await {
            answer.unwrap();
        }
    }
    is_whole(&store).await;
}
