//! What every model adapter has to do: one suite, run on the scripted model in process and on the HTTP client against it.
//!
//! The model under test performs [`SCRIPT`] and keeps [`limits`]; how it is reached is its own affair. The suite looks only through
//! the port: the same question has the same text, reasoning, usage, end and kind of failure, whatever lies between.

use contract::Limits;
use contract::event::TokenCount;
use futures::StreamExt as _;
use runtime::ports::model::{
    Effort, Image, ImageFormat, Model, ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelOptions, ModelRequest,
    PromptMessage, Schema, Speaker,
};

/// The script that the model under test performs. The request's first word picks the rule.
pub const SCRIPT: &str = include_str!("model.yaml");

/// The limits that it keeps: short enough to be waited for, long enough for a busy machine.
pub fn limits() -> Limits {
    Limits { model_first_byte_local_ms: 2_000, model_idle_ms: 1_000, ..Limits::default() }
}

/// All that a model said to one question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// The pieces of text, joined.
    pub text: String,
    /// The pieces of reasoning, joined.
    pub reasoning: String,
    /// The last usage.
    pub usage: Option<TokenCount>,
    /// How it ended.
    pub finish: Option<ModelFinish>,
    /// How it failed, and the milliseconds to wait that it asks for.
    pub error: Option<(ModelErrorKind, Option<u64>)>,
}

/// Asks and listens to the end. It panics if the stream breaks the port's promises: an empty piece, anything after the end or
/// after an error, reasoning after text that was asked for before it.
pub async fn hear(model: &dyn Model, request: ModelRequest) -> Heard {
    let mut heard = Heard::default();
    let fail = |error: &ModelError| {
        assert!(!error.message.is_empty(), "an error says what happened");
        Some((error.kind, error.retry_after_ms))
    };
    let mut stream = match model.stream(request).await {
        Ok(stream) => stream,
        Err(error) => return Heard { error: fail(&error), ..heard },
    };
    while let Some(piece) = stream.next().await {
        assert!(heard.finish.is_none() && heard.error.is_none(), "something came after the end: {piece:?}");
        match piece {
            Ok(ModelEvent::Text(piece)) => {
                assert!(!piece.is_empty(), "an empty piece of text");
                heard.text.push_str(&piece);
            }
            Ok(ModelEvent::Reasoning(piece)) => {
                assert!(!piece.is_empty(), "an empty piece of reasoning");
                heard.reasoning.push_str(&piece);
            }
            Ok(ModelEvent::Usage(tokens)) => heard.usage = Some(tokens),
            Ok(ModelEvent::RateLimit(_)) => assert_eq!(heard, Heard::default(), "what is left is told first"),
            Ok(ModelEvent::Finish(finish)) => heard.finish = Some(finish),
            Err(error) => heard.error = fail(&error),
        }
    }
    heard
}

/// A conversation: what was said, user and model in turns, the user first.
pub fn conversation(model: &dyn Model, said: &[&str]) -> ModelRequest {
    let system = PromptMessage::new(Speaker::System, "You build apps.").stable();
    let turns = said.iter().enumerate().map(|(index, text)| {
        PromptMessage::new(if index % 2 == 0 { Speaker::User } else { Speaker::Assistant }, *text)
    });
    ModelRequest::new(model.reference(), [system].into_iter().chain(turns).collect())
}

/// Runs the suite; it panics at the first question that is answered otherwise than the script says.
pub async fn holds(model: &dyn Model) {
    for (said, expected) in questions() {
        let heard = hear(model, conversation(model, said)).await;
        assert_eq!(heard, expected, "asked: {said:?}");
    }
    let seen = hear(model, with_everything(model)).await;
    assert_eq!(seen, Heard { finish: Some(ModelFinish::Stop), ..said("two pictures") });
    assert!(model.knows(&model.reference()), "the usual one can be asked");
    for malformed in [&[][..], &["plain", "answer"], &["plain", " ", "again"]] {
        let request = conversation(model, malformed);
        let heard = hear(model, request.clone()).await;
        assert_eq!(heard.error, Some((ModelErrorKind::BadRequest, None)), "asked: {request:?}");
    }
}

/// A question with images, more marks than anybody keeps, and every option.
fn with_everything(model: &dyn Model) -> ModelRequest {
    let mut request = conversation(model, &["pictures", "which?", "pictures: these", "and?", "pictures, well"]);
    let image = |format, bytes: &[u8]| Image { format, bytes: bytes.into() };
    request.messages[1].images = vec![image(ImageFormat::Png, b"first")];
    request.messages[5].images = vec![image(ImageFormat::Jpeg, b"second")];
    request.messages.iter_mut().for_each(|message| message.stable = true);
    let object = serde_json::json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    request.options = ModelOptions {
        max_output_tokens: Some(64),
        temperature: Some(0.5),
        schema: Some(Schema { name: "nothing".into(), schema: object }),
        effort: Some(Effort::Low),
    };
    request
}

fn said(text: &str) -> Heard {
    Heard { text: text.into(), ..Heard::default() }
}

fn questions() -> Vec<(&'static [&'static str], Heard)> {
    let failed = |text: &str, kind, retry_after_ms| Heard { error: Some((kind, retry_after_ms)), ..said(text) };
    let refused = |kind| failed("", kind, None);
    let tokens = |input, cached, output, reasoning| Some(TokenCount { input, cached, output, reasoning });
    let exact = "  \n\tlet rocket = \"\u{1f680}\u{df}\";\r\n\n ";
    let whole = Heard { finish: Some(ModelFinish::Stop), usage: tokens(70, 60, 50, 40), ..said(exact) };
    let reasoned = Heard {
        reasoning: "First this. Then that.\n".into(),
        finish: Some(ModelFinish::Length),
        ..said("<file path=\"src/Reasoned.tsx\">\nexport const title = \"Reasoned\";\n\n</file>\nDone.\n")
    };
    vec![
        (&["plain"], whole.clone()),
        (&["fragments"], whole),
        (&["reasoned"], reasoned),
        (
            &["estimated"],
            Heard { finish: Some(ModelFinish::ContentFilter), usage: tokens(6, 0, 3, 1), ..said("12345678") }
                .with_reasoning("1234"),
        ),
        (
            &["plain", "an answer", "# Results\n\nthe build failed"],
            Heard { finish: Some(ModelFinish::Stop), ..said("second turn") },
        ),
        (&["auth"], refused(ModelErrorKind::Auth)),
        (&["quota"], refused(ModelErrorKind::Quota)),
        (&["rate"], failed("", ModelErrorKind::Rate, Some(3_000))),
        (&["overload"], refused(ModelErrorKind::Overload)),
        (&["context"], refused(ModelErrorKind::Context)),
        (&["filter"], refused(ModelErrorKind::ContentFilter)),
        (&["wrong"], refused(ModelErrorKind::BadRequest)),
        (&["expected"], refused(ModelErrorKind::BadRequest)),
        (&["nobody answers this"], refused(ModelErrorKind::BadRequest)),
        (&["slow"], refused(ModelErrorKind::Network)),
        (&["error"], failed("12345", ModelErrorKind::Rate, None)),
        (&["break"], failed("12345", ModelErrorKind::Network, None)),
        (&["malformed"], failed("12345", ModelErrorKind::Protocol, None)),
        (&["stall"], failed("12345", ModelErrorKind::Network, None)),
        (&["twice"], refused(ModelErrorKind::Overload)),
        (&["twice"], refused(ModelErrorKind::Overload)),
        (&["twice"], Heard { finish: Some(ModelFinish::Stop), ..said("the third time") }),
    ]
}

impl Heard {
    fn with_reasoning(self, reasoning: &str) -> Self {
        Self { reasoning: reasoning.into(), ..self }
    }
}
