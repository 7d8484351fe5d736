//! From a whole tag, or a whole body, to what it asks for. This file checks form only: whether a command, an address or a package is
//! allowed is policy, and policy lives in the engine.

use super::element::Element;
use super::frame::{ErrorCode, Fault, Frame};
use super::tag::Attributes;
use super::{edit, install, utf8};
use crate::path::{PathProblem, ProjectPath};

/// What an opening tag begins.
#[derive(Debug)]
pub(super) enum Opened {
    Thinking,
    Sandbox {
        project: Option<String>,
        base: Option<String>,
    },
    File(ProjectPath),
    /// The body is held until its end.
    Body(Held),
    /// The element has no body and acts at once.
    Acts(Frame<'static>),
}

/// An element that acts when its body is whole.
#[derive(Debug, Clone)]
pub(super) enum Held {
    Edit(ProjectPath),
    Install,
    Skill(String),
}

impl Held {
    pub(super) fn element(&self) -> Element {
        match self {
            Self::Edit(_) => Element::Edit,
            Self::Install => Element::Install,
            Self::Skill(_) => Element::Skill,
        }
    }

    /// The frame that the body asks for.
    pub(super) fn act(self, body: &[u8]) -> Result<Frame<'static>, Fault> {
        let element = self.element();
        let body = utf8::text(body);
        match self {
            Self::Edit(path) => match edit::parse(&body) {
                Ok(blocks) => Ok(Frame::Edit { path, blocks }),
                Err(why) => Err(Fault { path: Some(path.into()), ..Fault::new(element, ErrorCode::BadEdit, why) }),
            },
            Self::Install => match install::parse(&body) {
                Ok(install) => Ok(Frame::Install { packages: install.packages, framework: install.framework }),
                Err(why) => Err(Fault::new(element, ErrorCode::BadInstall, why)),
            },
            Self::Skill(name) => match serde_json::from_str(json(&body)) {
                Ok(input @ serde_json::Value::Object(_)) => Ok(Frame::Skill { name, input }),
                Ok(_) => Err(Fault::new(element, ErrorCode::BadJson, "the body must be one JSON object")),
                Err(why) => Err(Fault::new(element, ErrorCode::BadJson, format!("the body is not JSON: {why}"))),
            },
        }
    }
}

/// A skill's body without a wrapping fence; an empty one asks for nothing special.
fn json(body: &str) -> &str {
    let body = body.trim();
    let bare =
        body.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")).and_then(|rest| rest.split_once('\n'));
    match bare.map_or(body, |(_info, inside)| inside.trim()) {
        "" => "{}",
        text => text,
    }
}

/// What a tag begins.
pub(super) fn open(element: Element, attributes: Attributes<'_>) -> Result<Opened, Fault> {
    let tag = Tag { element, attributes };
    Ok(match element {
        Element::Thinking => Opened::Thinking,
        Element::Sandbox => Opened::Sandbox { project: tag.optional("project"), base: tag.optional("base") },
        Element::File => Opened::File(tag.path("path")?),
        Element::Edit => Opened::Body(Held::Edit(tag.path("path")?)),
        Element::Install => Opened::Body(Held::Install),
        Element::Skill => Opened::Body(Held::Skill(tag.required("name")?)),
        Element::Delete => Opened::Acts(Frame::Delete { path: tag.path("path")? }),
        Element::Rename => Opened::Acts(Frame::Rename { from: tag.path("from")?, to: tag.path("to")? }),
        Element::Command => Opened::Acts(Frame::Command { command: tag.required("command")?, args: tag.arguments()? }),
        Element::WebSearch => {
            Opened::Acts(Frame::WebSearch { query: tag.required("query")?, max_results: tag.max_results()? })
        }
        Element::UrlScrape => Opened::Acts(Frame::UrlScrape { url: tag.required("url")? }),
        Element::Done => Opened::Acts(Frame::Done),
    })
}

/// A path as a model wrote it, checked.
pub(super) fn path(element: Element, written: &str) -> Result<ProjectPath, Fault> {
    ProjectPath::parse(written).map_err(|problem| Fault::path(element, written, problem))
}

struct Tag<'a> {
    element: Element,
    attributes: Attributes<'a>,
}

impl Tag<'_> {
    fn fault(&self, code: ErrorCode, message: String) -> Fault {
        Fault::new(self.element, code, message)
    }

    fn optional(&self, name: &str) -> Option<String> {
        self.attributes.get(name).map(|value| value.text().into_owned())
    }

    fn required(&self, name: &str) -> Result<String, Fault> {
        let value = self.optional(name).filter(|value| !value.trim().is_empty());
        value.ok_or_else(|| {
            self.fault(ErrorCode::MissingAttribute, format!("the attribute `{name}` is missing or empty"))
        })
    }

    fn path(&self, name: &str) -> Result<ProjectPath, Fault> {
        match self.attributes.get(name) {
            Some(value) => path(self.element, &value.text()),
            None => Err(Fault { path: None, ..Fault::path(self.element, "", PathProblem::Empty) }),
        }
    }

    fn arguments(&self) -> Result<Vec<String>, Fault> {
        let Some(value) = self.attributes.get("args") else { return Ok(Vec::new()) };
        value.strings().map_err(|why| {
            let message = format!(r#"args must be a JSON array of strings, such as args='["run","build"]': {why}"#);
            self.fault(ErrorCode::BadArgsJson, message)
        })
    }

    fn max_results(&self) -> Result<Option<u32>, Fault> {
        let Some(value) = self.attributes.get("max_results") else { return Ok(None) };
        value.text().trim().parse().map(Some).map_err(|_| {
            self.fault(ErrorCode::BadNumber, "max_results must be a whole number, such as max_results=\"5\"".into())
        })
    }
}
