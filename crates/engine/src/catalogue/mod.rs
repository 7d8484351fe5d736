//! The catalogue of models: what a model can take and give, and what it costs (L3, E6, N6).
//!
//! A table of data, as the vendors publish it, with a month; a file of the same form can say otherwise or more. A model that is not
//! in it works with what is assumed of it, and what is assumed is said. Prices are whole nanodollars a token, so that sums are exact.

use std::error::Error;
use std::fmt;

use contract::event::TokenCount;
use serde::Deserialize;

/// The table that comes with Baton.
const TABLE: &str = include_str!("models.json");
/// Models of one file.
const MODELS: usize = 2_000;
/// What is assumed of a model that nobody knows: it holds for almost all that can build an app.
const ASSUMED: (u64, u64) = (32_768, 8_192);
/// Nanodollars a token for a dollar a million tokens.
const NANO: f64 = 1_000.0;
/// Dollars a million tokens that no model costs.
const DEAREST: f64 = 10_000.0;

/// What a model's tokens cost, in nanodollars each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Tokens of a prompt.
    pub input: u64,
    /// Tokens of a prompt that the provider had cached.
    pub cached: u64,
    /// Tokens of an answer, reasoning included.
    pub output: u64,
}

/// A model's price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// The usual rates.
    pub usual: Rates,
    /// Others for a call whose prompt has more tokens than that.
    pub long: Option<(u64, Rates)>,
}

impl Price {
    /// What a call costs, in nanodollars. Reasoning is part of the output, and cached tokens are part of the input.
    pub fn of(&self, tokens: &TokenCount) -> u64 {
        let rates = self.long.filter(|(above, _)| tokens.input > *above).map_or(self.usual, |(_, rates)| rates);
        let cached = tokens.cached.min(tokens.input);
        let sum = [(tokens.input - cached, rates.input), (cached, rates.cached), (tokens.output, rates.output)];
        sum.iter().fold(0, |all, (count, rate)| all.saturating_add(count.saturating_mul(*rate)))
    }
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// Tokens of prompt and answer together.
    pub window: u64,
    /// Tokens of one answer.
    pub output: u64,
    /// Whether it sees images.
    pub images: bool,
    /// Whether it reasons before it answers.
    pub reasoning: bool,
    /// What it costs; none if that is not known, or nothing.
    pub price: Option<Price>,
    /// Whether that is assumed, since the model is in no catalogue.
    pub assumed: bool,
}

/// A file that is no catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadCatalogue {
    /// Not the form.
    Form(String),
    /// A model that cannot be.
    Model {
        /// The model.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl fmt::Display for BadCatalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(what) => f.write_str(what),
            Self::Model { name, what } => write!(f, "`{name}`: {what}"),
        }
    }
}

impl Error for BadCatalogue {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    as_of: String,
    models: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Whose it is; none for any.
    #[serde(default)]
    provider: Option<String>,
    name: String,
    window: u64,
    output: u64,
    #[serde(default)]
    images: bool,
    #[serde(default)]
    reasoning: bool,
    #[serde(default)]
    price: Option<PriceRow>,
}

/// Dollars a million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    input: f64,
    cached: Option<f64>,
    output: f64,
    long: Option<LongRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongRow {
    above: u64,
    input: f64,
    cached: Option<f64>,
    output: f64,
}

/// Models and what is known of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// When the vendors said so.
    as_of: String,
    /// Later ones are the later word.
    models: Vec<(Option<String>, String, ModelFacts)>,
}

impl Catalogue {
    /// The one that comes with Baton.
    pub fn own() -> Result<Self, BadCatalogue> {
        Self::read(TABLE)
    }

    /// Reads a file: `{"as_of": "2026-11", "models": [{"provider", "name", "window", "output", "images", "reasoning", "price":
    /// {"input", "cached", "output", "long": {"above", …}}}]}`, windows and outputs in tokens, prices in dollars a million tokens.
    pub fn read(text: &str) -> Result<Self, BadCatalogue> {
        let file: File = serde_json::from_str(text).map_err(|error| BadCatalogue::Form(error.to_string()))?;
        if file.models.len() > MODELS {
            return Err(BadCatalogue::Form(format!("more than {MODELS} models")));
        }
        let models = file.models.into_iter().map(|row| {
            let bad = |what| BadCatalogue::Model { name: row.name.clone(), what };
            if row.name.trim().is_empty() {
                return Err(bad("it has no name"));
            }
            if row.output == 0 || row.output > row.window {
                return Err(bad("its output has to be some tokens of its window"));
            }
            let price = row.price.as_ref().map(price).transpose().map_err(bad)?;
            let Row { window, output, images, reasoning, .. } = row;
            Ok((row.provider, row.name, ModelFacts { window, output, images, reasoning, price, assumed: false }))
        });
        Ok(Self { as_of: file.as_of, models: models.collect::<Result<_, _>>()? })
    }

    /// What another one says comes first.
    pub fn with(mut self, other: Self) -> Self {
        self.models.extend(other.models);
        self
    }

    /// When the vendors said so: a year and a month.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// What is known of a model, or assumed. A name may carry a vendor before a slash and a date or `latest` behind it, as
    /// `anthropic/claude-sonnet-4-5-20250929`.
    pub fn find(&self, provider: &str, name: &str) -> ModelFacts {
        let name = name.trim().to_ascii_lowercase();
        let own = name.rsplit('/').next().unwrap_or(&name);
        let fits = |known: &str| own.strip_prefix(known).is_some_and(is_edition);
        let of = |whose: &Option<String>| whose.as_deref().is_none_or(|whose| whose == provider);
        let known = |strict: bool| {
            let found = self.models.iter().rev().filter(|(whose, known, _)| fits(known) && (!strict || of(whose)));
            // The longest name is the nearest.
            found.fold(None::<&(_, String, ModelFacts)>, |best, model| match best {
                Some(best) if best.1.len() >= model.1.len() => Some(best),
                _ => Some(model),
            })
        };
        // Other servers offer the same models: what these can is the same, and what they cost is not known.
        let elsewhere = || known(false).map(|(_, _, facts)| ModelFacts { price: None, ..facts.clone() });
        known(true).map(|(_, _, facts)| facts.clone()).or_else(elsewhere).unwrap_or_else(ModelFacts::assumed)
    }
}

impl ModelFacts {
    fn assumed() -> Self {
        let (window, output) = ASSUMED;
        Self { window, output, images: false, reasoning: false, price: None, assumed: true }
    }

    /// Tokens that a prompt may have, so that there is room for an answer.
    pub fn prompt(&self) -> u64 {
        // A model that could fill its window with its answer still has to be asked something.
        self.window - self.output.min(self.window / 4)
    }
}

/// Whether what stands behind a model's name is nothing, `latest`, or a date or version of figures.
fn is_edition(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(['-', '@', ':']) else { return rest.is_empty() };
    let figures = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    rest == "latest" || rest == "preview" || (rest.len() >= 4 && rest.split('-').all(figures))
}

fn price(row: &PriceRow) -> Result<Price, &'static str> {
    let usual = rates(row.input, row.cached, row.output)?;
    let dear = |long: &LongRow| rates(long.input, long.cached, long.output).map(|rates| (long.above, rates));
    Ok(Price { usual, long: row.long.as_ref().map(dear).transpose()? })
}

/// Where a vendor has no rate for cached tokens, they cost what others do.
fn rates(input: f64, cached: Option<f64>, output: f64) -> Result<Rates, &'static str> {
    let nano = |dollars: f64| {
        let sound = (0.0..=DEAREST).contains(&dollars);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within its bounds")]
        sound.then(|| (dollars * NANO).round() as u64).ok_or("its prices have to be dollars a million tokens")
    };
    Ok(Rates { input: nano(input)?, cached: nano(cached.unwrap_or(input))?, output: nano(output)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_with_its_vendor_date_and_edition_and_nothing_else_is() {
        let own = Catalogue::own().unwrap();
        let window = |provider, name| Some(own.find(provider, name)).filter(|facts| !facts.assumed).map(|f| f.window);
        let cases = [
            ("anthropic", "claude-haiku-4-5-20251001", Some(200_000)),
            ("anthropic", "claude-opus-5-5", Some(1_000_000)),
            ("openai", "gpt-5", Some(400_000)),
            ("openai", "GPT-5-2025-08-07", Some(400_000)),
            ("openai", "gpt-5.5", Some(1_050_000)),
            ("openai", "gpt-5.9", None),
            ("openai", "gpt-5-turbo", None),
            ("gemini", "gemini-2.5-flash-lite", Some(1_048_576)),
            ("gemini", "gemini-3.1-pro-preview", Some(1_048_576)),
            ("compatible", "anthropic/claude-sonnet-4-5", Some(200_000)),
            ("compatible", "qwen3-coder", None),
            ("compatible", "", None),
        ];
        for (provider, name, want) in cases {
            assert_eq!(window(provider, name), want, "{provider} {name}");
        }
        assert!(
            own.find("compatible", "anthropic/claude-sonnet-4-5").price.is_none(),
            "what others charge is not known"
        );
        let unknown = own.find("compatible", "mystery");
        assert_eq!((unknown.assumed, unknown.prompt()), (true, 24_576));
    }

    /// N6: what a call costs, to the nanodollar.
    #[test]
    fn a_call_costs_what_its_vendor_says() {
        let own = Catalogue::own().unwrap();
        let cost = |provider, name, input, cached, output| {
            let tokens = TokenCount { input, cached, output, reasoning: 0 };
            own.find(provider, name).price.unwrap().of(&tokens)
        };
        assert_eq!(cost("anthropic", "claude-haiku-4-5", 1_000, 800, 100), 200 * 1_000 + 800 * 100 + 100 * 5_000);
        assert_eq!(cost("openai", "gpt-5-nano", 1_000_000, 0, 0), 50_000_000, "five cents");
        assert_eq!(cost("gemini", "gemini-2.5-pro", 200_000, 0, 1), 200_000 * 1_250 + 10_000);
        assert_eq!(cost("gemini", "gemini-2.5-pro", 200_001, 1, 1), 200_000 * 2_500 + 250 + 15_000, "a long prompt");
        assert_eq!(cost("openai", "gpt-4o", 10, 99, 0), 10 * 1_250, "no more is cached than was sent");
    }

    #[test]
    fn a_file_says_more_or_otherwise_and_a_bad_one_says_why() {
        let more = r#"{"models": [{"name": "qwen3-coder", "window": 262144, "output": 65536},
            {"provider": "openai", "name": "gpt-5", "window": 1000, "output": 10, "price": {"input": 1, "output": 2}}]}"#;
        let all = Catalogue::own().unwrap().with(Catalogue::read(more).unwrap());
        assert_eq!(all.find("compatible", "qwen3-coder").window, 262_144);
        assert_eq!(all.find("openai", "gpt-5").price.map(|price| price.usual.cached), Some(1_000));
        for (bad, why) in [
            ("[]", "expected"),
            (r#"{"models": [{"name": "a", "window": 1, "output": 2}]}"#, "`a`: its output"),
            (r#"{"models": [{"name": " ", "window": 2, "output": 1}]}"#, "no name"),
            (r#"{"models": [{"name": "a", "window": 2, "output": 1, "cost": 1}]}"#, "unknown field"),
            (
                r#"{"models": [{"name": "a", "window": 2, "output": 1, "price": {"input": -1, "output": 1}}]}"#,
                "dollars",
            ),
        ] {
            let told = Catalogue::read(bad).unwrap_err().to_string();
            assert!(told.contains(why), "{bad}: {told}");
        }
    }
}
