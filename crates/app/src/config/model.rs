//! Which model: the demo, or one behind a server, from flags, variables and the file together.
//!
//! It talks to nobody; whether the server is there is seen when it is asked, or by `baton doctor`.

use std::net::IpAddr;

use adapters::model::{Secret, own_base_url};
use contract::event::Provider;
use reqwest::Url;

use super::file::Written;
use super::provider::{self, Clues};
use super::{Fault, Raw};

/// The name by which the demo is asked for.
const DEMO: &str = "demo";

/// The model that runs use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSetting {
    /// Baton's own script, which is no model.
    Demo,
    /// A model behind a server.
    Remote {
        /// Whose format the server speaks.
        provider: Provider,
        /// Its name there.
        name: String,
        /// The server's base URL, without a slash at the end.
        url: String,
        /// The key, if there is one.
        key: Option<Secret>,
    },
}

/// A value and the place that it was written in.
type Placed<'a> = Option<(String, &'a str)>;

/// What each source says.
pub struct Sources<'a> {
    name: Placed<'a>,
    provider: Placed<'a>,
    url: Placed<'a>,
    key: Placed<'a>,
}

impl<'a> Sources<'a> {
    /// The first of flag, variable and file that says something.
    pub fn of(raw: &'a Raw, written: &'a Written) -> Self {
        let file = raw.file.as_ref().map(|(path, _)| path.display().to_string()).unwrap_or_default();
        let pick = |flag: Option<(&str, &'a Option<String>)>,
                    variable: &str,
                    key: &str,
                    in_file: &'a Option<String>|
         -> Placed<'a> {
            let flag = flag.and_then(|(name, value)| Some((name.to_owned(), value.as_deref()?)));
            let from_environment = || raw.variable(variable).map(|value| (variable.to_owned(), value));
            let from_file = || in_file.as_deref().map(|value| (format!("{file}, model.{key}"), value));
            flag.or_else(from_environment).or_else(from_file)
        };
        let name = pick(Some(("--model", &raw.model)), "BATON_MODEL", "name", &written.model.name);
        let url = pick(Some(("--model-url", &raw.model_url)), "BATON_MODEL_URL", "url", &written.model.url);
        let mut provider = pick(None, "BATON_MODEL_PROVIDER", "provider", &written.model.provider);
        let mut key = pick(None, "BATON_MODEL_KEY", "key", &written.model.key);
        // A key belongs to the server that it was written beside: the file's key is not sent to an address from elsewhere. What
        // the server speaks was written of that one, too.
        let written_here = |(place, _): &(String, &str)| !place.contains(", model.");
        if url.as_ref().is_some_and(written_here) {
            key = key.filter(written_here);
            provider = provider.filter(written_here);
        }
        Self { name, provider, url, key }
    }
}

/// Judges what the sources say together, and adds what is wrong to `faults`.
pub fn resolve(sources: &Sources<'_>, warnings: &mut Vec<String>, faults: &mut Vec<Fault>) -> ModelSetting {
    let key = sources.key.as_ref().and_then(|(place, key)| {
        let secret = Secret::new(key);
        if secret.is_none() {
            let what = "*** is no key: it is empty, or holds a blank or a letter that no header can carry";
            faults.push(Fault::new(place, what, "copy it again"));
        }
        secret
    });
    let url = sources.url.as_ref().and_then(|(place, url)| match web_address(url) {
        Ok(url) => Some(url),
        Err(what) => {
            faults.push(Fault::new(
                place,
                what,
                "write a base URL such as http://127.0.0.1:11434/v1 or https://api.openai.com/v1",
            ));
            None
        }
    });
    let Some((_, name)) = &sources.name else {
        if sources.url.is_some() || sources.key.is_some() || sources.provider.is_some() {
            let fix = "name the model as its server calls it, such as qwen3-coder; without URL and key the built-in demo is used";
            faults.push(Fault::new(
                "BATON_MODEL",
                "is missing: there is a URL, a key or a provider, but no model",
                fix,
            ));
        }
        return ModelSetting::Demo;
    };
    if *name == DEMO && sources.url.is_none() && sources.provider.is_none() {
        return ModelSetting::Demo;
    }
    let Some((provider, url)) = server(sources, url, name, faults) else { return ModelSetting::Demo };
    if key.is_some() && !goes_safely(&url) {
        warnings.push(format!("the model's key goes to {url} unencrypted"));
    }
    ModelSetting::Remote { provider, name: (*name).to_owned(), url, key }
}

/// Who serves the model, and where; none if that is not known, which is a fault. `url` is the one of the sources, found good.
fn server(
    sources: &Sources<'_>,
    url: Option<String>,
    name: &str,
    faults: &mut Vec<Fault>,
) -> Option<(Provider, String)> {
    fn placed<'b>(source: &'b Placed<'_>) -> Option<(&'b str, &'b str)> {
        source.as_ref().map(|(place, value)| (place.as_str(), *value))
    }
    if sources.url.is_some() && url.is_none() {
        return None;
    }
    let clues = Clues { said: placed(&sources.provider), url: placed(&sources.url), key: placed(&sources.key) };
    let provider = provider::find(&clues, faults)?;
    let Some(url) = url.or_else(|| own_base_url(provider).map(str::to_owned)) else {
        let fix = "give the base URL of its server (Ollama: http://127.0.0.1:11434/v1, LM Studio: http://127.0.0.1:1234/v1), or BATON_MODEL_PROVIDER and BATON_MODEL_KEY for OpenAI, Anthropic or Gemini";
        faults.push(Fault::new("BATON_MODEL_URL", format!("is missing: nobody knows where `{name}` is"), fix));
        return None;
    };
    if sources.key.is_none() && own_base_url(provider) == Some(url.as_str()) {
        let who = provider::words(provider);
        faults.push(Fault::new(
            "BATON_MODEL_KEY",
            format!("is missing: {who} answers nobody without"),
            "set it to your key",
        ));
        return None;
    }
    Some((provider, url))
}

/// An address of a web server, without a slash at the end.
///
/// # Errors
/// What is wrong with it. The text itself is not repeated if it may hold a password.
pub fn web_address(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("`{text}` is no http or https address"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address holds a user or a password; keys have a setting of their own".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("`{text}` has a `?` or `#`, which a base URL cannot have"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Whether a key that goes to this address cannot be read on the way.
fn goes_safely(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let here =
        host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback());
    url.scheme() == "https" || here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_an_address_and_nothing_more() {
        let table = [
            ("http://127.0.0.1:11434/v1/", Ok("http://127.0.0.1:11434/v1")),
            ("https://api.example.org", Ok("https://api.example.org")),
            ("localhost:11434", Err("no http")),
            ("ftp://a/b", Err("no http")),
            ("https://me:secret@a/v1", Err("password")),
            ("https://a/v1?key=1", Err("base URL")),
            ("", Err("no address")),
        ];
        for (text, expected) in table {
            match (web_address(text), expected) {
                (Ok(url), Ok(expected)) => assert_eq!(url, expected),
                (Err(what), Err(expected)) => {
                    assert!(what.contains(expected) && !what.contains("secret"), "{text}: {what}")
                }
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_key_may_be_read_on_the_way_to_another_machine() {
        for (url, safe) in [
            ("http://127.0.0.1:1/v1", true),
            ("http://[::1]:1", true),
            ("http://localhost/v1", true),
            ("https://a", true),
            ("http://a/v1", false),
            ("http://10.0.0.2/v1", false),
        ] {
            assert_eq!(goes_safely(url), safe, "{url}");
        }
    }
}
