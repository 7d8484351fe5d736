//! Whose model it is: said, or seen from the base URL or from the key's form; and whether URL and key belong there (E2).
//!
//! A key goes only where one of its form belongs. It talks to nobody: `baton doctor --confirm` does.

use contract::event::Provider;
use reqwest::Url;

use super::Fault;

/// Providers by the names that settings have for them.
pub const NAMES: &[(&str, Provider)] = &[
    ("openai", Provider::Openai),
    ("anthropic", Provider::Anthropic),
    ("gemini", Provider::Gemini),
    ("compatible", Provider::Compatible),
];

/// What a provider is called in settings.
pub fn name(provider: Provider) -> &'static str {
    NAMES.iter().find(|(_, known)| *known == provider).map_or("demo", |(name, _)| name)
}

/// What is known when the provider is to be found, each with its place.
pub struct Clues<'a> {
    /// What was said.
    pub said: Option<(&'a str, &'a str)>,
    /// The base URL.
    pub url: Option<(&'a str, &'a str)>,
    /// The key. Never shown.
    pub key: Option<(&'a str, &'a str)>,
}

/// The provider, if it can be told; else, and if something does not belong together, `faults` grows.
pub fn find(clues: &Clues<'_>, faults: &mut Vec<Fault>) -> Option<Provider> {
    let provider = match clues.said {
        Some((place, said)) => match NAMES.iter().find(|(name, _)| *name == said) {
            Some((_, provider)) => *provider,
            None => {
                let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                let fix = format!("it is one of: {}", names.join(", "));
                faults.push(Fault::new(place, format!("`{said}` is no provider"), fix));
                return None;
            }
        },
        None => infer(clues, faults)?,
    };
    let before = faults.len();
    let at_home = clues.url.and_then(|(_, url)| vendor_of_host(url));
    if let (Some((place, _)), Some(home)) = (clues.url, at_home)
        && provider != Provider::Compatible
        && provider != home
    {
        let what = format!("is an address of {}, and the provider is {}", name(home), name(provider));
        faults.push(Fault::new(place, what, format!("leave it out, or set BATON_MODEL_PROVIDER={}", name(home))));
    }
    // Where a compatible server is a vendor's own, the vendor's keys belong there.
    let belongs = if provider == Provider::Compatible { at_home } else { Some(provider) };
    let form = clues.key.and_then(|(place, key)| Some((place, vendor_of_key(key)?)));
    if let (Some((place, form)), Some(belongs)) = (form, belongs)
        && form != belongs
    {
        let what = format!("*** has the form of a key for {}, and would be sent to {}", words(form), words(belongs));
        let fix = format!("give a key for {}, or set BATON_MODEL_PROVIDER={}", words(belongs), name(form));
        faults.push(Fault::new(place, what, fix));
    }
    (faults.len() == before).then_some(provider)
}

fn infer(clues: &Clues<'_>, faults: &mut Vec<Fault>) -> Option<Provider> {
    let form = clues.key.and_then(|(_, key)| vendor_of_key(key));
    let Some((place, url)) = clues.url else { return Some(form.unwrap_or(Provider::Compatible)) };
    if let Some(vendor) = vendor_of_url(url) {
        return Some(vendor);
    }
    // Many servers have keys in OpenAI's form; nobody else has these.
    if let Some(vendor @ (Provider::Anthropic | Provider::Gemini)) = form {
        let what = format!("would be sent a key for {}, and is not its server", words(vendor));
        let fix = format!(
            "leave it out, or say what it speaks: BATON_MODEL_PROVIDER={} or BATON_MODEL_PROVIDER=compatible",
            name(vendor)
        );
        faults.push(Fault::new(place, what, fix));
        return None;
    }
    Some(Provider::Compatible)
}

/// The vendor whose keys have this form.
fn vendor_of_key(key: &str) -> Option<Provider> {
    const FORMS: &[(&str, Provider)] = &[
        ("sk-ant-", Provider::Anthropic),
        ("sk-or-", Provider::Compatible),
        ("gsk_", Provider::Compatible),
        ("xai-", Provider::Compatible),
        ("sk-", Provider::Openai),
        ("AIza", Provider::Gemini),
    ];
    FORMS.iter().find(|(form, _)| key.trim().starts_with(form)).map(|(_, provider)| *provider)
}

/// The vendor whose own server it is.
fn vendor_of_host(url: &str) -> Option<Provider> {
    match Url::parse(url).ok()?.host_str()? {
        "api.openai.com" => Some(Provider::Openai),
        "api.anthropic.com" => Some(Provider::Anthropic),
        "generativelanguage.googleapis.com" => Some(Provider::Gemini),
        _ => None,
    }
}

/// The same, if it is not the address at which Gemini speaks OpenAI's format.
fn vendor_of_url(url: &str) -> Option<Provider> {
    let speaks_openai =
        Url::parse(url).is_ok_and(|url| url.path_segments().is_some_and(|mut path| path.any(|s| s == "openai")));
    vendor_of_host(url).map(|vendor| if speaks_openai { Provider::Compatible } else { vendor })
}

/// A provider for people.
pub fn words(provider: Provider) -> &'static str {
    match provider {
        Provider::Demo => "the demo",
        Provider::Openai => "OpenAI",
        Provider::Anthropic => "Anthropic",
        Provider::Gemini => "Gemini",
        Provider::Compatible => "an OpenAI-compatible server",
    }
}

#[cfg(test)]
mod tests {
    use Provider::{Anthropic, Compatible, Gemini, Openai};

    use super::*;

    /// E2: (said, URL, key) and what becomes of it: a provider, or the place of the fault.
    #[test]
    fn the_provider_is_said_or_seen_and_nothing_goes_where_it_does_not_belong() {
        type Row = (Option<&'static str>, Option<&'static str>, Option<&'static str>, Result<Provider, &'static str>);
        const OPENAI: Option<&str> = Some("https://api.openai.com/v1");
        const CLAUDE: Option<&str> = Some("https://api.anthropic.com/v1");
        const GOOGLE: Option<&str> = Some("https://generativelanguage.googleapis.com/v1beta");
        const GOOGLES_OPENAI: Option<&str> = Some("https://generativelanguage.googleapis.com/v1beta/openai");
        const OTHER: Option<&str> = Some("https://gateway.example.org/v1");
        let table: [Row; 28] = [
            (None, None, Some("sk-ant-api03-x"), Ok(Anthropic)),
            (None, None, Some("AIzaSyx"), Ok(Gemini)),
            (None, None, Some("sk-proj-x"), Ok(Openai)),
            (None, None, Some(" sk-x\n"), Ok(Openai)),
            (None, None, Some("sk-or-v1-x"), Ok(Compatible)),
            (None, None, Some("gsk_x"), Ok(Compatible)),
            (None, None, Some("whatever"), Ok(Compatible)),
            (None, OPENAI, None, Ok(Openai)),
            (None, CLAUDE, Some("sk-ant-x"), Ok(Anthropic)),
            (None, GOOGLE, Some("AIzax"), Ok(Gemini)),
            (None, GOOGLES_OPENAI, Some("AIzax"), Ok(Compatible)),
            (None, OTHER, Some("sk-x"), Ok(Compatible)),
            (None, OTHER, Some("x"), Ok(Compatible)),
            (None, OTHER, None, Ok(Compatible)),
            (Some("anthropic"), OTHER, Some("sk-ant-x"), Ok(Anthropic)),
            (Some("compatible"), OTHER, Some("sk-ant-x"), Ok(Compatible)),
            (Some("compatible"), OPENAI, Some("sk-x"), Ok(Compatible)),
            (Some("openai"), None, Some("a key of tomorrow's form"), Ok(Openai)),
            // What does not belong together.
            (None, OTHER, Some("sk-ant-x"), Err("url")),
            (None, OTHER, Some("AIzax"), Err("url")),
            (None, OPENAI, Some("sk-ant-x"), Err("key")),
            (None, CLAUDE, Some("sk-x"), Err("key")),
            (Some("openai"), None, Some("sk-ant-x"), Err("key")),
            (Some("openai"), None, Some("sk-or-x"), Err("key")),
            (Some("anthropic"), None, Some("AIzax"), Err("key")),
            (Some("compatible"), OPENAI, Some("sk-ant-x"), Err("key")),
            (Some("anthropic"), OPENAI, Some("sk-ant-x"), Err("url")),
            (Some("claude"), None, Some("sk-ant-x"), Err("said")),
        ];
        for (said, url, key, expected) in table {
            let mut faults = Vec::new();
            let clues =
                Clues { said: said.map(|s| ("said", s)), url: url.map(|u| ("url", u)), key: key.map(|k| ("key", k)) };
            let found = find(&clues, &mut faults);
            let got = found.ok_or_else(|| faults.first().map_or("", |fault| fault.place.as_str()));
            assert_eq!(got, expected, "{said:?} {url:?} {key:?}: {faults:?}");
            assert_eq!(faults.is_empty(), expected.is_ok());
            assert!(
                key.is_none_or(|key| !format!("{faults:?}").contains(key.trim())),
                "a key is not shown: {faults:?}"
            );
        }
    }
}
