//! The suite of the model port on both adapters: the scripted model in process, and the HTTP client against the same script.
#![expect(clippy::unwrap_used, reason = "a test; clippy sees tests only where `#[test]` stands")]

use std::sync::Arc;

use adapters::model::scripted::{Ledger, Script, ServeOptions, serve};
use adapters::model::{Compatible, CompatibleConfig, ScriptedModel, Scripts, Secret};
use contract::event::{ModelRef, Provider};
use runtime::ports::model::Model;
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

#[tokio::test]
async fn the_http_client_against_the_scripted_server_holds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let key = Secret::new("sk-conformance");
    let ledger = Ledger::default();
    let options = ServeOptions { model: Some("m".into()), key: key.clone(), ledger: ledger.clone() };
    let stop = CancellationToken::new();
    let server = serve(listener, scripts(), options, stop.clone());
    let client = async {
        let model: Arc<dyn Model> =
            Arc::new(Compatible::new(CompatibleConfig { base_url, key, model: "m".into(), limits: limits() }).unwrap());
        holds(model.as_ref()).await;
        stop.cancel();
    };
    let (served, ()) = tokio::join!(server, client);
    served.unwrap();
    assert!(ledger.entries().iter().all(|entry| entry.key && entry.stream));
}
