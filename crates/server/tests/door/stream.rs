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

/// Checks that events follow each other from `after`, merged or not, and that each says what its data says. Gives the last place and
/// all of the text.
fn gapless(run: &str, after: u64, events: &[Event]) -> (u64, String) {
    let (mut last, mut text) = (after, String::new());
    for event in events {
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        let first = data.get("from_seq").unwrap_or(&data["seq"]).as_u64().unwrap();
        assert_eq!(first, last + 1, "{}", event.data);
        last = event.seq();
        assert_eq!(event.id, format!("{run}:{last}"));
        assert_eq!((&data["seq"], &data["stream_id"], &data["type"]), (&json!(last), &json!(run), &json!(event.kind)));
        text += data["text"].as_str().unwrap_or_default();
    }
    (last, text)
}

#[tokio::test]
async fn every_cursor_of_a_finished_run_gives_the_rest_of_it() {
    let house = House::with(limits()).await;
    let mut log = house.log().await;
    let lines: Vec<String> = (0..20).map(|n| format!("line {n}\n\n\u{e9}\r ")).collect();
    log.write(lines.clone()).await;
    log.finish().await;
    let run = log.run().to_string();
    let (head, mut whole) = house.events(&of(&log), None).await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let whole = whole.rest().await;
    assert_eq!(gapless(&run, 0, &whole), (log.end, lines.concat()));
    assert_eq!(whole.last().unwrap().kind, "run_completed");
    // Pages of seven events, of which the deltas are one each.
    let (of_pages, of_events) = (whole.len() as u64, log.end);
    assert!(of_pages <= of_events.div_ceil(7) + 3, "{of_pages}");
    for after in 0..log.end {
        let (_, mut by_header) = house.events(&of(&log), Some(&format!("{run}:{after}"))).await;
        let (_, mut by_query) = house.events(&format!("{}?after={after}", of(&log)), None).await;
        let rest = by_header.rest().await;
        // The first two and the last are no text.
        let text = lines.iter().skip(usize::try_from(after.saturating_sub(2)).unwrap()).map(String::as_str).collect();
        assert_eq!(gapless(&run, after, &rest), (log.end, text));
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

fn piece(size: &usize) -> String {
    format!("{size} {}", "x".repeat(*size))
}

/// Reads a growing log through connections that break after so many events; gives everything that was seen.
async fn interrupted(house: &House, sizes: &[usize], breaks: &[usize]) -> (Vec<Event>, u64) {
    let mut log = house.log().await;
    let target = of(&log);
    let writer = async {
        for size in sizes {
            log.write([piece(size)]).await;
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
            let (last, text) = gapless(seen[0].id.split(':').next().unwrap(), 0, &seen);
            prop_assert_eq!(last, end);
            prop_assert!(text == sizes.iter().map(piece).collect::<String>(), "what was written is what was read");
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
    let text = piece.repeat(256);
    assert!(gapless(&run, 0, &whole) == (log.end, text.clone()), "the fast one has everything");

    let cut = async {
        while !house.ask("GET", "/metrics", None).await.text().contains(r#"cut_total{reason="reader_stalled"} 1"#) {}
    };
    timeout(PATIENCE, cut).await.expect("the reader that takes nothing is cut");
    let mut seen = timeout(PATIENCE, slow.rest()).await.expect("what was under way, and a proper end");
    assert!(seen.last().unwrap().seq() < log.end, "it was cut before the end");
    assert!(slow.comment.contains("nothing was taken for 500 ms"), "it is told why: {}", slow.comment);
    let (_, mut back) = house.events(&target, Some(&seen.last().unwrap().id)).await;
    seen.extend(back.rest().await);
    assert!(gapless(&run, 0, &seen) == (log.end, text), "it has everything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_never_looks_again_is_let_go() {
    let house = House::with(limits()).await;
    let mut log = house.log().await;
    let mut dead = narrow(&house, &of(&log)).await;
    log.write(std::iter::repeat_n("z".repeat(64 * 1024), 64)).await;
    dead.next().await.unwrap().unwrap();
    let gone = async {
        while !house.ask("GET", "/metrics", None).await.text().contains("baton_sse_readers 0") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("nothing is held for it any more");
    assert!(!house.runtime.live.is_read(log.run()), "nor is the run followed for it");
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
    let mut open = 3;
    while open > 0 {
        let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
        let run = event.id.split(':').next().unwrap().parse().unwrap();
        let of_run = [(&a, &mut from_a), (&b, &mut from_b), (&c, &mut from_c)];
        let (log, seen) = of_run.into_iter().find(|(log, _)| log.run() == run).unwrap();
        open -= usize::from(event.seq() == log.end);
        seen.push(event);
    }
    let text = (0..30).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(gapless(&a.run().to_string(), 12, &from_a), (a.end, text[10..].concat()));
    assert_eq!(gapless(&b.run().to_string(), 0, &from_b), (b.end, text.concat()));
    assert_eq!(gapless(&c.run().to_string(), 2, &from_c), (c.end, text.concat()));
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
