//! Roles: servers and workers as processes of their own, on a real PostgreSQL and a real Redis, and the settings that they share.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use sim::servers::{Postgres, Redis};

use crate::house::{House, Lines, Running, exit_code, get, signal, told, until};

/// The first answer stops in the middle of a file until its reader leaves; the next one is whole.
const STALLS_ONCE: &str = r#"
name: stalls once
rules:
  - name: stalls
    when: { turn: 1, times: 1 }
    respond: |
      Some words first.
      <file path="src/App.tsx">
      the first attempt, which is never whole
      and goes on
      </file>
      <done/>
    fault: { stall_after: 70 }
  - name: whole
    when: { turn: 1 }
    respond: |
      Some words first.
      <file path="src/App.tsx">
      the second attempt
      </file>
      <done/>
"#;

/// Every answer is whole.
const WHOLE: &str = r#"
name: whole
rules:
  - name: whole
    respond: |
      <file path="src/App.tsx">
      an app
      </file>
      <done/>
"#;

/// Where browsers find previews. Nobody has to listen there: who connects to a server names it as the Host.
const PREVIEWS: &str = "localhost:7420";

/// Several processes of one Baton.
struct Village {
    house: House,
    postgres: Postgres,
    redis: Redis,
}

impl Village {
    fn new(script: &str) -> Self {
        let mut house = House::empty();
        house.start_model(script);
        Self { house, postgres: Postgres::start(), redis: Redis::start() }
    }

    /// A process of a role, started, with what it says on its standard output until it is ready; its log is kept.
    fn start(&self, role: &str, name: &str) -> (Running, Vec<String>) {
        let mut command = self.house.role(role);
        if role == "server" {
            command.args(["--port", "0"]);
        }
        let log = File::create(self.log(name)).unwrap();
        let mut child = Running(self.shared(&mut command).stdout(Stdio::piped()).stderr(log).spawn().unwrap());
        let mut lines = Lines::of(&mut child.0);
        let first = lines.next(" is ready: ");
        let said = [first, lines.next("  data ")].to_vec();
        // What is still to come must not stop it.
        std::thread::spawn(move || lines.rest());
        (child, said)
    }

    /// A server and its address.
    fn server(&self, name: &str) -> (Running, String) {
        let (server, said) = self.start("server", name);
        (server, said[0].rsplit(' ').next().unwrap().to_owned())
    }

    fn shared<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("BATON_DATABASE_URL", self.postgres.url())
            .env("BATON_REDIS_URL", self.redis.url())
            .env("BATON_PREVIEWS", PREVIEWS)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.house.data().join(format!("{name}.log"))
    }
}

fn port(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// The part of an address that nobody may see.
fn password(url: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    rest.split('@').next().unwrap().rsplit(':').next().unwrap().to_owned()
}

#[test]
fn a_message_to_one_server_is_worked_on_elsewhere_and_seen_everywhere() {
    // E4, E15, E20, E21, D14
    let village = Village::new(STALLS_ONCE);
    let house = &village.house;
    let ((_one, first), (two, second)) = (village.server("one"), village.server("two"));
    let (mut early, said) = village.start("worker", "early");
    assert!(said[0].starts_with("Baton worker is ready: "), "{said:?}");

    let (mut run, mut sent) = house.follow(&["run", "an app", "--json", "--server", &first]);
    let id = sent.event("run_queued")["run_id"].as_str().unwrap().to_owned();
    let (mut reader, mut seen) = house.follow(&["events", &id, "--follow", "--json", "--server", &second]);
    let started = seen.event("run_started");
    seen.event("file_delta");

    // A worker that is told to stop hands its run back, and another one goes on with it.
    let (_late, said) = village.start("worker", "late");
    signal(&early, Signal::TERM);
    assert_eq!(exit_code(&mut early), Some(0), "a stop is no failure");
    let again = seen.event("run_started");
    assert_ne!(started["worker"], again["worker"]);
    assert!(said[0].ends_with(again["worker"].as_str().unwrap()), "{said:?} {again}");
    let built = seen.event("preview_url");
    let end = seen.event("run_completed");
    assert_eq!((exit_code(&mut reader), exit_code(&mut run)), (Some(0), Some(0)));
    assert_eq!(sent.event("run_completed"), end, "both servers tell the same");

    // The preview is found at every server, under the one address that all of them tell.
    let host = built["host"].as_str().unwrap();
    assert!(built["kind"] == "built" && host.ends_with(&format!(".{PREVIEWS}")), "{built}");
    for url in [&first, &second] {
        let page = get(port(url), "/app.txt", host);
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("the second attempt"), "{url}: {page}");
        let ready = get(port(url), "/readyz", &format!("127.0.0.1:{}", port(url)));
        assert!(ready.ends_with("ready\n"), "{ready}");
    }

    // Commands find a server that lives. Both know the owner's token, which one of them has made.
    drop(two);
    for _ in 0..2 {
        let (code, text) = told(&house.run(&["runs"]));
        assert_eq!((code, text.as_str()), (Some(0), ""));
    }
    for name in ["one", "two", "early", "late"] {
        let log = fs::read_to_string(village.log(name)).unwrap();
        for secret in [password(&village.postgres.url()), password(&village.redis.url())] {
            assert!(!log.contains(&secret), "{name} shows a password:\n{log}");
        }
    }
}

#[test]
fn a_reader_goes_on_at_another_server_and_a_bus_that_is_away_costs_time_alone() {
    // E16, E21
    let village = Village::new(STALLS_ONCE);
    let (one, first) = village.server("one");
    let (mut reader, mut seen) = village.house.follow(&["run", "an app", "--json"]);
    let id = seen.event("run_queued")["run_id"].as_str().unwrap().to_owned();
    let (_two, second) = village.server("two");
    village.redis.stop();
    until("the bus is away", || {
        let host = format!("127.0.0.1:{}", port(&second));
        get(port(&second), "/readyz", &host).contains("the bus is away")
    });
    let (worker, _) = village.start("worker", "worker");
    seen.event("file_delta");
    // As power cuts would.
    drop(worker);
    drop(one);
    village.redis.start_again();
    let (_worker, _) = village.start("worker", "successor");
    let end = seen.event("run_completed");
    assert_eq!((exit_code(&mut reader), &end["run_id"]), (Some(0), &Value::from(id)), "from {first} to {second}");
}

#[test]
fn a_role_without_what_it_needs_does_not_start_and_says_everything_that_is_wrong() {
    // E25
    let house = House::empty();
    for role in ["server", "worker"] {
        let (code, text) = told(&house.role(role).output().unwrap());
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("BATON_DATABASE_URL") && text.contains("SQLite") && text.contains("baton up"), "{text}");
    }
    let mut wrong = house.role("server");
    wrong.env("BATON_DATABASE_URL", "postgres://me:hush@db").env("BATON_REDIS_URL", "redis://:hush@cache/x");
    wrong.env("BATON_PREVIEWS", "http://x").env("BATON_OWNER_TOKEN", "hush").env("BATON_MODEL", "m");
    let (code, text) = told(&wrong.output().unwrap());
    for name in ["BATON_DATABASE_URL", "BATON_REDIS_URL", "BATON_PREVIEWS", "BATON_OWNER_TOKEN", "BATON_MODEL_URL"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert!(code == Some(2) && text.contains("5 settings are wrong") && !text.contains("hush"), "{code:?} {text}");

    let mut away = house.role("worker");
    away.env("BATON_DATABASE_URL", "postgres://me:hush@127.0.0.1:1/baton");
    let (code, text) = told(&away.output().unwrap());
    assert!(code == Some(1) && text.contains("127.0.0.1:1") && !text.contains("hush"), "{code:?} {text}");
}

#[test]
fn without_a_worker_a_run_that_waits_is_stopped_and_each_server_shows_previews_at_its_own_port() {
    // E16
    let village = Village::new(STALLS_ONCE);
    let mut command = village.house.role("server");
    let log = File::create(village.log("server")).unwrap();
    village.shared(command.args(["--port", "0"])).env_remove("BATON_PREVIEWS");
    let mut server = Running(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap());
    let mut lines = Lines::of(&mut server.0);
    let url = lines.next(" is ready: ").rsplit(' ').next().unwrap().to_owned();
    let own = format!("localhost:{}", port(&url));
    assert!(lines.next("  previews ").contains(&own));
    std::thread::spawn(move || lines.rest());
    let page = get(port(&url), "/", &format!("127.0.0.1:{}", port(&url)));
    let frames = format!("frame-src http://*.{own};");
    assert!(page.contains("503") || page.contains(&frames), "the UI shows frames from there alone: {page}");

    let mut stranger = village.house.role("server");
    let log = village.log("stranger");
    village.shared(stranger.args(["--port", "0"])).env("BATON_OWNER_TOKEN", "ab".repeat(32));
    let mut child = stranger.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    Lines::of(&mut child).next(" is ready: ");
    drop(Running(child));
    let said = fs::read_to_string(&log).unwrap();
    assert!(
        said.contains("is not that of the servers that started before") && said.contains("BATON_OWNER_TOKEN"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}') && !said.contains(&"ab".repeat(32)), "neither colours nor a token: {said:?}");
    let first = fs::read_to_string(village.log("server")).unwrap();
    assert!(!first.contains("started before"), "{first}");

    let (mut run, mut sent) = village.house.follow(&["run", "an app", "--json"]);
    let id = sent.event("run_queued")["run_id"].as_str().unwrap().to_owned();
    let output = village.house.run(&["cancel", &id]);
    let (code, text) = told(&output);
    assert_eq!(code, Some(0), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("cancelled"), "{output:?}");
    sent.event("run_cancelled");
    assert_eq!(exit_code(&mut run), Some(130));
    let kinds: Vec<_> = village.house.events(&id).iter().map(|event| event["type"].clone()).collect();
    assert!(!kinds.contains(&Value::from("run_started")), "nobody performed it: {kinds:?}");

    // Also one that a worker had begun, which died.
    let (worker, _) = village.start("worker", "worker");
    let (mut run, mut sent) = village.house.follow(&["run", "an app", "--json"]);
    let id = sent.event("run_queued")["run_id"].as_str().unwrap().to_owned();
    sent.event("file_delta");
    drop(worker);
    let (code, text) = told(&village.house.run(&["cancel", &id]));
    assert_eq!(code, Some(0), "{text}");
    sent.event("run_cancelled");
    assert_eq!(exit_code(&mut run), Some(130));
}

#[test]
fn a_check_looks_at_the_shared_database_and_who_stops_says_goodbye() {
    let village = Village::new(WHOLE);
    let url = village.postgres.url();
    let check = || village.shared(&mut village.house.command(&["check"])).output().unwrap();
    let (code, text) = told(&check());
    assert!(code == Some(1) && text.contains("holds nothing of Baton's"), "{code:?} {text}");
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
    assert_eq!(village.postgres.ask(&url, tables), "0", "a check makes none");

    let (mut worker, _) = village.start("worker", "worker");
    assert_eq!(told(&check()), (Some(0), String::new()), "while a worker is at work");
    let (mut server, _) = village.server("server");
    let (mut run, mut sent) = village.house.follow(&["run", "an app", "--json"]);
    let id = sent.event("run_completed")["run_id"].as_str().unwrap().to_owned();
    assert_eq!(exit_code(&mut run), Some(0));
    signal(&server, Signal::TERM);
    assert_eq!(exit_code(&mut server), Some(0));
    assert_eq!(told(&check()), (Some(0), String::new()), "and of what it has done");
    village.postgres.ask(&url, "UPDATE runs SET title = 'another'");
    let text = String::from_utf8(check().stdout).unwrap();
    assert!(text.contains(&format!("{id}: title: the log says an app, the row another")), "{text}");
    village.postgres.ask(&url, "UPDATE runs SET title = 'an app'");
    let holders = || village.postgres.ask(&url, "SELECT count(*) FROM holders");
    assert_eq!(holders(), "1", "the worker's: who only looks is nobody");
    signal(&worker, Signal::TERM);
    assert_eq!(exit_code(&mut worker), Some(0));
    assert_eq!(holders(), "0", "nobody has to find out that it is gone");

    village.postgres.ask(&url, "UPDATE slots SET active = 1 WHERE slot = 3");
    let output = check();
    let (code, text) = told(&output);
    assert!(code == Some(1) && String::from_utf8_lossy(&output.stdout).contains("slot 3 is wrong by 1"), "{output:?}");
    assert!(text.contains("PostgreSQL's own tools") && text.contains("objects"), "{text}");
}
