//! Events on the wire (E21): from any cursor, at any speed, through any interruption, a client gets the whole log.

use std::time::Duration;

use crate::house::wire::{Ask, Connection, Event, Events};
use crate::house::{House, Log, PATIENCE, TOKEN};
use contract::Limits;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tokio::net::TcpSocket;
use tokio::time::timeout;

fn limits() -> Limits {
    Limits {
        active_runs_per_user: 10_000,
        active_runs_global: 10_000,
        sse_streams: 3,
        sse_heartbeat_ms: 50,
        sse_write_ms: 500,
        read_page: 7,
        ..Limits::default()
    }
}

fn of(log: &Log) -> String {
    format!("/v1/runs/{}/events", log.run())
}

/// Checks that events follow each other from `after` and that each says what its data says.
fn gapless(run: &str, after: u64, events: &[Event]) {
    for (seq, event) in (after + 1..).zip(events) {
        assert_eq!(event.id, format!("{run}:{seq}"));
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!((&data["seq"], &data["stream_id"], &data["type"]), (&json!(seq), &json!(run), &json!(event.kind)));
    }
}

#[tokio::test]
async fn every_cursor_of_a_finished_run_gives_the_rest_of_it() {
    let house = House::with(limits()).await;
    let mut log = house.log().await;
    log.write((0..20).map(|n| format!("line {n}\n\n\u{e9}\r "))).await;
    log.finish().await;
    let run = log.run().to_string();
    let (head, mut whole) = house.events(&of(&log), None).await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let whole = whole.rest().await;
    gapless(&run, 0, &whole);
    assert_eq!((whole.len() as u64, whole.last().unwrap().kind.as_str()), (log.end, "run_completed"));
    for after in 0..log.end {
        let (_, mut by_header) = house.events(&of(&log), Some(&format!("{run}:{after}"))).await;
        let (_, mut by_query) = house.events(&format!("{}?after={after}", of(&log)), None).await;
        let rest = &whole[usize::try_from(after).unwrap()..];
        assert_eq!(by_header.rest().await, rest);
        assert_eq!(by_query.rest().await, rest);
    }
    let other = house.log().await.run();
    for (target, id, status) in [
        (of(&log), Some(format!("{run}:{}", log.end)), 204),
        (format!("{}?after={}", of(&log), log.end), None, 204),
        (of(&log), Some(format!("{run}:{}", log.end + 1)), 400),
        (format!("{}?after={}", of(&log), u64::MAX), None, 400),
        (of(&log), Some(format!("{other}:1")), 400),
        (of(&log), Some(format!("{run}:-1")), 400),
        (of(&log), Some(run.clone()), 400),
        (of(&log), Some(String::new()), 400),
        (format!("{}?after=-1", of(&log)), None, 400),
    ] {
        let (head, _) = house.events(&target, id.as_deref()).await;
        assert_eq!(head.status, status, "{target} {id:?}");
    }
}

/// Reads a growing log through connections that break after so many events; gives everything that was seen.
async fn interrupted(house: &House, sizes: &[usize], breaks: &[usize]) -> (Vec<Event>, u64) {
    let mut log = house.log().await;
    let target = of(&log);
    let writer = async {
        for size in sizes {
            log.write([format!("{size} {}", "x".repeat(*size))]).await;
        }
        log.finish().await;
        log.end
    };
    let reader = async {
        let mut seen: Vec<Event> = Vec::new();
        let mut breaks = breaks.iter();
        loop {
            let (head, mut events) = house.events(&target, seen.last().map(|event| event.id.as_str())).await;
            if head.status == 204 {
                return seen;
            }
            let most = breaks.next().copied().unwrap_or(usize::MAX);
            for _ in 0..most {
                match events.next().await.unwrap() {
                    Some(event) => seen.push(event),
                    None => return seen,
                }
            }
        }
    };
    let (seen, end) = timeout(PATIENCE, async { tokio::join!(reader, writer) }).await.unwrap();
    (seen, end)
}

#[test]
fn a_client_that_comes_back_again_and_again_gets_the_whole_log_once() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let house = tokio.block_on(House::with(limits()));
    let sizes = prop::collection::vec(prop_oneof![0usize..64, 8_000usize..9_000, 30_000usize..70_000], 1..24);
    let breaks = prop::collection::vec(1usize..6, 0..12);
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(sizes, breaks), |(sizes, breaks)| {
            let (seen, end) = tokio.block_on(interrupted(&house, &sizes, &breaks));
            prop_assert_eq!(seen.len() as u64, end);
            gapless(seen[0].id.split(':').next().unwrap(), 0, &seen);
            let texts: Vec<usize> = seen
                .iter()
                .filter(|event| event.kind == "text_delta")
                .map(|event| {
                    serde_json::from_str::<serde_json::Value>(&event.data).unwrap()["text"].as_str().unwrap().len()
                })
                .collect();
            let sent: Vec<usize> = sizes.iter().map(|size| size.to_string().len() + 1 + size).collect();
            prop_assert_eq!(texts, sent);
            Ok(())
        })
        .unwrap();
}

/// A stream whose reader takes little at a time.
async fn narrow(house: &House, target: &str) -> Events {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(format!("127.0.0.1:{}", house.port).parse().unwrap()).await.unwrap();
    let mut connection = Connection::on(stream);
    let headers = vec![("Host", house.host()), ("Authorization", format!("Bearer {TOKEN}"))];
    connection.send(&Ask { method: "GET", target, headers, body: b"" }.bytes()).await;
    connection.head().await;
    Events::new(connection)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_is_cut_and_comes_back_while_a_fast_one_waits_for_nobody() {
    // D8: 16 MiB do not fit into the buffers of two sockets.
    let house = House::with(limits()).await;
    let mut log = house.log().await;
    let (target, piece) = (of(&log), "y".repeat(64 * 1024));
    let mut slow = narrow(&house, &target).await;
    let (_, mut fast) = house.events(&target, None).await;
    let writing = async {
        for _ in 0..64 {
            log.write(std::iter::repeat_n(piece.clone(), 4)).await;
        }
        log.finish().await;
        log.run().to_string()
    };
    let (run, whole) = timeout(PATIENCE, async { tokio::join!(writing, fast.rest()) }).await.unwrap();
    gapless(&run, 0, &whole);

    let cut = async {
        while !house.ask("GET", "/metrics", None).await.text().contains(r#"cut_total{reason="reader_stalled"} 1"#) {}
    };
    timeout(PATIENCE, cut).await.expect("the reader that takes nothing is cut");
    let mut seen = Vec::new();
    while let Ok(Some(event)) = slow.next().await {
        seen.push(event);
    }
    assert!(seen.len() < whole.len(), "it was cut before the end");
    let (_, mut back) = house.events(&target, Some(&seen.last().unwrap().id)).await;
    seen.extend(back.rest().await);
    assert_eq!(seen, whole);
}

#[tokio::test]
async fn one_connection_carries_several_runs_and_outlives_them() {
    let house = House::with(limits()).await;
    let (mut a, mut b, mut c) = (house.log().await, house.log().await, house.log().await);
    for log in [&mut a, &mut b, &mut c] {
        log.write((0..30).map(|n| n.to_string())).await;
    }
    a.finish().await;
    let target = format!("/v1/stream?cursors={}:12,{}:0,{}:2", a.run(), b.run(), c.run());
    let (head, mut events) = house.events(&target, None).await;
    assert_eq!(head.status, 200);
    let (mut from_a, mut from_b, mut from_c) = (Vec::new(), Vec::new(), Vec::new());
    b.finish().await;
    let wanted = (a.end - 12) + b.end + (c.end - 2);
    for _ in 0..wanted {
        let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
        let run = event.id.split(':').next().unwrap().parse().unwrap();
        let of_run = [(a.run(), &mut from_a), (b.run(), &mut from_b), (c.run(), &mut from_c)];
        of_run.into_iter().find(|(known, _)| *known == run).unwrap().1.push(event);
    }
    gapless(&a.run().to_string(), 12, &from_a);
    gapless(&b.run().to_string(), 0, &from_b);
    gapless(&c.run().to_string(), 2, &from_c);
    c.write(["live".to_owned()]).await;
    assert_eq!(timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap().seq(), c.end);
    c.finish().await;
    assert_eq!(timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap().kind, "run_completed");
    let comments = events.comments;
    let quiet = timeout(Duration::from_millis(400), events.next()).await;
    assert!(quiet.is_err() && events.comments > comments, "quiet but for heartbeats, and open");
}

#[tokio::test]
async fn a_connection_of_many_streams_is_refused_before_it_begins() {
    let house = House::with(limits()).await;
    let mine = house.log().await.run();
    let foreign = house.log_of(contract::UserId::from_bits(77)).await.run();
    let unknown = contract::RunId::from_bits(5);
    for (cursors, status, code) in [
        (format!("{mine}:0,{unknown}:0"), 404, "no_such_run"),
        (format!("{mine}:0,{foreign}:0"), 404, "no_such_run"),
        (format!("{mine}:3"), 400, "bad_cursor"),
        (format!("{mine}:0,{mine}:1"), 400, "bad_cursor"),
        (format!("{mine}:0,"), 400, "bad_cursor"),
        (String::new(), 400, "bad_cursor"),
    ] {
        let answer = house.ask("GET", &format!("/v1/stream?cursors={cursors}"), None).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{cursors}");
    }
    let many: Vec<_> = (10..14).map(|n| format!("{}:0", contract::RunId::from_bits(n))).collect();
    let refused = house.ask("GET", &format!("/v1/stream?cursors={}", many.join(",")), None).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "too_many_streams"));
    assert_eq!((&refused.json()["limit"], &refused.json()["value"]), (&json!("sse_streams"), &json!(3)));
}

#[tokio::test]
async fn a_message_that_asks_for_events_is_answered_with_them() {
    let house = House::with(limits()).await;
    let body = json!({ "text": "a to-do list" }).to_string();
    let headers = vec![
        ("Host", house.host()),
        ("Authorization", format!("Bearer {TOKEN}")),
        ("Content-Type", "application/json".into()),
        ("Accept", "text/event-stream".into()),
    ];
    let mut connection = Connection::open(house.port).await;
    connection.send(&Ask { method: "POST", target: "/v1/chats", headers, body: body.as_bytes() }.bytes()).await;
    let head = connection.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let run = head.header("location").unwrap().strip_prefix("/v1/runs/").unwrap().to_owned();
    let mut events = Events::new(connection);
    let first = [events.next().await.unwrap().unwrap(), events.next().await.unwrap().unwrap()];
    gapless(&run, 0, &first);
    assert_eq!([first[0].kind.as_str(), &first[1].kind], ["run_queued", "session"]);
}

#[tokio::test]
async fn a_stop_ends_open_streams_properly_and_at_once() {
    let house = House::with(limits()).await;
    let log = house.log().await;
    let (_, mut one) = house.events(&of(&log), None).await;
    let (_, mut many) = house.events(&format!("/v1/stream?cursors={}:0", log.run()), None).await;
    one.next().await.unwrap().unwrap();
    many.next().await.unwrap().unwrap();
    house.stop.cancel();
    timeout(Duration::from_secs(5), async { (one.rest().await, many.rest().await) }).await.expect("at once");
    timeout(Duration::from_secs(5), house.served).await.expect("at once").unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", house.port)).await.is_err(), "the port is free");
}
