//! The suite of the model port on all adapters: the scripted model in process, and the client of each wire format against a server of
//! the same script.
#![expect(clippy::unwrap_used, reason = "a test; clippy sees tests only where `#[test]` stands")]

use adapters::model::scripted::{Ledger, Script, ServeOptions, serve};
use adapters::model::{Remote, RemoteConfig, ScriptedModel, Scripts, Secret};
use contract::event::{ModelRef, Provider};
use runtime::ports::model::Model as _;
use sim::conformance::model::{SCRIPT, holds, limits};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn scripts() -> Scripts {
    Scripts::new(vec![Script::read("model.yaml", SCRIPT).unwrap()])
}

#[tokio::test(start_paused = true)]
async fn the_scripted_model_in_process_holds() {
    let reference = ModelRef { provider: Provider::Demo, name: "scripted".into() };
    let model = ScriptedModel::new(scripts(), reference.clone()).with_limits(&limits());
    assert_eq!(model.reference(), reference);
    holds(&model).await;
}

/// E2, E6, E23: the same promises over each wire format, through the client that a real server is asked with.
async fn the_client_holds_over(provider: Provider, path: &str, format: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/{path}", listener.local_addr().unwrap());
    let key = Secret::new("sk-conformance");
    let ledger = Ledger::default();
    let options = ServeOptions { model: Some("m".into()), key: key.clone(), ledger: ledger.clone() };
    let stop = CancellationToken::new();
    let server = serve(listener, scripts(), options, stop.clone());
    let client = async {
        let config = RemoteConfig { provider, base_url, key, model: "m".into(), limits: limits() };
        let model = Remote::new(config).unwrap();
        holds(&model).await;
        model.confirm().await.unwrap();
        stop.cancel();
    };
    let (served, ()) = tokio::join!(server, client);
    served.unwrap();
    assert!(ledger.entries().iter().all(|entry| entry.key && entry.format == format));
}

#[tokio::test]
async fn chat_completions_of_the_scripted_server_hold() {
    the_client_holds_over(Provider::Compatible, "v1", "chat_completions").await;
}

#[tokio::test]
async fn responses_of_the_scripted_server_hold() {
    the_client_holds_over(Provider::Openai, "v1", "responses").await;
}

#[tokio::test]
async fn messages_of_the_scripted_server_hold() {
    the_client_holds_over(Provider::Anthropic, "v1", "messages").await;
}

#[tokio::test]
async fn content_generated_by_the_scripted_server_holds() {
    the_client_holds_over(Provider::Gemini, "v1beta", "generate_content").await;
}
