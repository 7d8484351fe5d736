//! What those ask who look after a server, and who read what it holds.

use crate::house::House;
use crate::house::wire::Ask;
use serde_json::json;

async fn open(house: &House, target: &str) -> crate::house::wire::Answer {
    house.raw(&Ask { method: "GET", target, headers: vec![("Host", house.host())], body: b"" }).await
}

#[tokio::test]
async fn alive_ready_and_measured_by_route_and_never_by_path() {
    let house = House::open().await;
    let run = house.log().await.run();
    assert_eq!(open(&house, "/healthz").await.status, 200);
    assert_eq!(open(&house, "/readyz").await.status, 200);
    assert_eq!(house.ask("GET", &format!("/v1/runs/{run}"), None).await.json()["id"], run.to_string());
    let (_, mut events) = house.events(&format!("/v1/runs/{run}/events"), None).await;
    events.next().await.unwrap();
    let metrics = open(&house, "/metrics").await;
    assert_eq!(metrics.status, 200, "this machine may read them");
    let text = metrics.text();
    assert!(text.contains(r#"baton_http_requests_total{method="GET",route="/v1/runs/{id}",status="200"}"#), "{text}");
    assert!(text.contains("baton_http_request_seconds") && text.contains("baton_sse_readers"), "{text}");
    assert!(!text.contains(&run.to_string()) && !text.contains(crate::house::TOKEN), "{text}");
}

#[tokio::test]
async fn lists_are_paged_and_show_what_is_the_callers() {
    let house = House::open().await;
    let mut mine = Vec::new();
    for _ in 0..3 {
        mine.push(house.log().await.run().to_string());
        house.world.pass(1);
    }
    house.log_of(contract::UserId::from_bits(77)).await;
    let mut seen = Vec::new();
    let mut target = "/v1/runs?limit=2".to_owned();
    loop {
        let page = house.ask("GET", &target, None).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        target = format!("/v1/runs?limit=2&cursor={next}");
    }
    mine.reverse();
    assert_eq!(seen, mine);
    let chats = house.ask("GET", "/v1/chats", None).await.json();
    assert_eq!(chats["items"].as_array().unwrap().len(), 3);
    let of_chat = format!("/v1/runs?chat={}", chats["items"][0]["id"].as_str().unwrap());
    assert_eq!(house.ask("GET", &of_chat, None).await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_system_says_what_it_is_and_a_demo_is_called_a_demo() {
    let house = House::open().await;
    let system = house.ask("GET", "/v1/system", None).await.json();
    assert_eq!((&system["demo"], &system["model"]["name"]), (&json!(true), &json!("demo")));
    assert_eq!(
        (&system["sandbox"]["level"], &system["sandbox"]["remedy"]),
        (&json!("refused"), &json!("Ask for one."))
    );
    let document = open(&house, "/v1/openapi.json").await.json();
    assert_eq!(document, serde_json::to_value(server::openapi()).unwrap());
}

#[tokio::test]
async fn a_run_can_be_stopped_looked_at_and_its_project_read() {
    let house = House::open().await;
    let mut log = house.log().await;
    let run = log.run();
    let cancelled = house.ask("POST", &format!("/v1/runs/{run}/cancel"), None).await;
    assert_eq!((cancelled.status, &cancelled.json()["id"]), (200, &json!(run)));
    assert_eq!(house.runtime.ports.store.inbox(run).await.unwrap().len(), 1);
    let graph = house.ask("GET", &format!("/v1/runs/{run}/graph"), None).await;
    assert_eq!((graph.status, &graph.json()["run_id"]), (200, &json!(run)));
    log.publish(&[("index.html", b"one")]).await;
    let project = log.accepted.project_id;
    let versions = house.ask("GET", &format!("/v1/projects/{project}/versions"), None).await.json();
    assert_eq!(versions["items"][0]["summary"], "first");
    let file = house.ask("GET", &format!("/v1/projects/{project}/files/index.html"), None).await;
    assert_eq!((file.status, file.text().as_str()), (200, "one"));
    assert_eq!(file.header("content-type"), Some("text/plain; charset=utf-8"), "shown as text, whatever it is");
    assert_eq!(file.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn pages_are_packed_and_streams_are_not() {
    let house = House::open().await;
    let log = house.log().await;
    let gzip = ("Accept-Encoding", "gzip, br".to_owned());
    let page = Ask { method: "GET", target: "/", headers: vec![("Host", house.host()), gzip.clone()], body: b"" };
    let page = house.raw(&page).await;
    assert_eq!(page.header("content-encoding"), Some("gzip"), "the UI, or the page that says that it is not built");
    assert!(page.header("vary").unwrap().contains("accept-encoding"));
    let target = format!("/v1/runs/{}/events", log.run());
    let headers = vec![("Host", house.host()), ("Authorization", format!("Bearer {}", crate::house::TOKEN)), gzip];
    let mut connection = crate::house::wire::Connection::open(house.port).await;
    connection.send(&Ask { method: "GET", target: &target, headers, body: b"" }.bytes()).await;
    assert_eq!(connection.head().await.header("content-encoding"), None);
}
