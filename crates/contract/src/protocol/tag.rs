//! One tag: where it ends, and the attributes in it. [`Scan`] is the only thing that knows how quotes work; finding the end and
//! reading the attributes both ask it, so they cannot disagree.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Where in a tag the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spot {
    /// Outside a value.
    Between,
    /// Behind `=`, where a value begins.
    BeforeValue,
    /// Behind `=` and a backslash.
    Backslash,
    /// In a value without quotes.
    Bare,
    /// In a value that this quote ends; the flag tells that a backslash protects the next byte.
    Quoted(u8, bool),
    /// In a value that a backslash and this quote end; counted are the backslashes just before.
    Escaped(u8, usize),
}

/// Reads a tag byte by byte, from the end of its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    spot: Spot,
    /// A slash was the last byte outside quotes that is no blank.
    slash: bool,
    /// An attribute has a value: this was meant as a tag.
    valued: bool,
    /// A quote stands where no value begins: somewhere before, one was not closed.
    stray_quote: bool,
}

/// What a piece of a tag brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The tag goes on behind the piece.
    Inside,
    /// The `>` that ends it is the last of this many bytes.
    Ends(usize),
    /// After this many bytes comes a `<` outside quotes: it was no tag.
    Broken(usize),
}

impl Scan {
    pub(super) fn new() -> Self {
        Self { spot: Spot::Between, slash: false, valued: false, stray_quote: false }
    }

    /// Reads on.
    pub(super) fn advance(&mut self, piece: &[u8]) -> Progress {
        let mut i = 0;
        loop {
            i += self.spot.plain(&piece[i..]);
            let Some(byte) = piece.get(i).copied() else { return Progress::Inside };
            if matches!(self.spot, Spot::Between | Spot::BeforeValue | Spot::Backslash | Spot::Bare) {
                match byte {
                    b'>' => return Progress::Ends(i + 1),
                    b'<' => return Progress::Broken(i),
                    _ if byte.is_ascii_whitespace() => {}
                    _ => self.slash = byte == b'/',
                }
                self.valued |= byte == b'=';
                self.stray_quote |= self.spot == Spot::Between && matches!(byte, b'"' | b'\'');
            }
            self.spot = self.spot.after(byte);
            i += 1;
        }
    }

    /// Whether a slash stands before the `>`, once that has been found.
    pub(super) fn self_closing(self) -> bool {
        self.slash && matches!(self.spot, Spot::Between | Spot::Bare)
    }

    /// Whether an attribute has a value, so that this is no word of prose that happens to look like a tag.
    pub(super) fn has_values(self) -> bool {
        self.valued
    }

    /// Whether quotes stand only round values.
    pub(super) fn is_well_formed(self) -> bool {
        !self.stray_quote
    }
}

impl Spot {
    /// How many bytes at the beginning of `s` leave a quoted value as it is: no quote of its own, no backslash.
    fn plain(self, s: &[u8]) -> usize {
        match self {
            Self::Quoted(quote, false) | Self::Escaped(quote, 0) => memchr2(quote, b'\\', s).unwrap_or(s.len()),
            _ => 0,
        }
    }

    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Between, b'=') => Self::BeforeValue,
            (Self::Between, _) => Self::Between,
            (Self::BeforeValue, b'"' | b'\'') => Self::Quoted(byte, false),
            (Self::BeforeValue, b'\\') => Self::Backslash,
            (Self::BeforeValue, b) if b.is_ascii_whitespace() => Self::BeforeValue,
            (Self::Backslash, b'"' | b'\'') => Self::Escaped(byte, 0),
            (Self::Bare | Self::Backslash, b) if b.is_ascii_whitespace() => Self::Between,
            (Self::BeforeValue | Self::Backslash | Self::Bare, _) => Self::Bare,
            (Self::Quoted(quote, true), _) => Self::Quoted(quote, false),
            (Self::Quoted(quote, false), b'\\') => Self::Quoted(quote, true),
            (Self::Quoted(quote, false), b) if b == quote => Self::Between,
            (Self::Quoted(quote, false), _) => Self::Quoted(quote, false),
            // One backslash and the quote end the value; more of them are a quote within it that was escaped twice.
            (Self::Escaped(quote, 1), b) if b == quote => Self::Between,
            (Self::Escaped(quote, n), b'\\') => Self::Escaped(quote, n + 1),
            (Self::Escaped(quote, _), _) => Self::Escaped(quote, 0),
        }
    }
}

/// A value as it stands in the tag, and what it stands in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    raw: &'a str,
    quote: Quote,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Single,
    Double,
    /// Behind a backslash: the whole tag was escaped once more.
    Escaped,
}

impl Quote {
    fn new(byte: u8) -> Self {
        if byte == b'"' { Self::Double } else { Self::Single }
    }
}

impl<'a> Value<'a> {
    /// The value: exact, unless the quote that it stands in occurs in it behind a backslash; then its backslashes are taken as escapes.
    pub(super) fn text(self) -> Cow<'a, str> {
        match self.quote {
            _ if memchr(b'\\', self.raw.as_bytes()).is_none() => self.raw.into(),
            Quote::Double if self.raw.contains("\\\"") => unescape(self.raw, '"').into(),
            Quote::Single if self.raw.contains("\\'") => unescape(self.raw, '\'').into(),
            Quote::Escaped if self.raw.contains("\\\"") => unescape(&unescape(self.raw, '"'), '"').into(),
            Quote::None | Quote::Single | Quote::Double | Quote::Escaped => self.raw.into(),
        }
    }

    /// The value as a JSON array of strings: as it stands, or else with a level of backslashes removed, or two.
    pub(super) fn strings(self) -> Result<Vec<String>, serde_json::Error> {
        let first = serde_json::from_str(self.raw);
        if first.is_ok() || !self.raw.contains('\\') {
            return first;
        }
        let once = unescape(self.raw, '"');
        let others = [unescape(self.raw, '\''), unescape(&once, '"'), once];
        others.iter().find_map(|text| serde_json::from_str(text).ok()).map_or(first, Ok)
    }
}

/// Removes the backslash before each `quote`; a double quote is JSON's, and so is the backslash before a backslash then.
fn unescape(raw: &str, quote: char) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = c == '\\' && chars.peek().is_some_and(|next| *next == quote || (*next == '\\' && quote == '"'));
        text.push(if escaped { chars.next().unwrap_or(c) } else { c });
    }
    text
}

/// The attributes of a tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes<'a>(&'a str);

impl<'a> Attributes<'a> {
    /// Takes what stands between a tag's name and its `>`.
    pub(super) fn new(inside: &'a str) -> Self {
        Self(inside)
    }

    /// The first attribute with this name, in any letter case.
    pub(super) fn get(self, wanted: &str) -> Option<Value<'a>> {
        let mut rest = self.0;
        loop {
            let (name, value, after) = attribute(rest)?;
            if name.eq_ignore_ascii_case(wanted) {
                return Some(value);
            }
            rest = after;
        }
    }
}

/// The first attribute with a value: its name, its value, what follows.
fn attribute(text: &str) -> Option<(&str, Value<'_>, &str)> {
    let bytes = text.as_bytes();
    let equals = memchr(b'=', bytes)?;
    let before = text[..equals].trim_ascii_end();
    let name = before.bytes().rposition(|b| b.is_ascii_whitespace() || b == b'/').map_or(before, |i| &before[i + 1..]);
    let (mut spot, mut quote) = (Spot::BeforeValue, Quote::None);
    let mut i = equals + 1;
    let mut from = i;
    loop {
        i += spot.plain(&bytes[i..]);
        let Some(byte) = bytes.get(i).copied() else { break };
        let next = spot.after(byte);
        match (spot, next) {
            (Spot::BeforeValue, Spot::Quoted(q, _)) => (from, quote) = (i + 1, Quote::new(q)),
            (Spot::Backslash, Spot::Escaped(..)) => (from, quote) = (i + 1, Quote::Escaped),
            (Spot::BeforeValue, Spot::Bare | Spot::Backslash) => from = i,
            (_, Spot::Between) => {
                let end = if quote == Quote::Escaped { i - 1 } else { i };
                return Some((name, Value { raw: &text[from..end], quote }, &text[i + 1..]));
            }
            _ => {}
        }
        spot = next;
        i += 1;
    }
    // A bare value may reach to the end of the tag; a slash there belongs to the tag.
    let raw = text[from..].strip_suffix('/').unwrap_or(&text[from..]);
    matches!(spot, Spot::Bare | Spot::Backslash).then_some((name, Value { raw, quote: Quote::None }, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(inside: &str) -> (Progress, bool) {
        let mut whole = Scan::new();
        let progress = whole.advance(inside.as_bytes());
        let mut bytes = Scan::new();
        let alone = inside.bytes().map(|b| bytes.advance(&[b])).find(|p| *p != Progress::Inside);
        assert_eq!(alone.is_some(), progress != Progress::Inside, "byte by byte: {inside}");
        (progress, whole.self_closing())
    }

    #[test]
    fn a_tag_ends_at_the_first_angle_outside_quotes() {
        for (inside, expected) in [
            (">", (Progress::Ends(1), false)),
            ("/>", (Progress::Ends(2), true)),
            (" / >", (Progress::Ends(4), true)),
            (" / a>", (Progress::Ends(5), false)),
            (r#" a="1>2" b='<'>x"#, (Progress::Ends(15), false)),
            (r#" a=\"1>\\\">2\"/>"#, (Progress::Ends(17), true)),
            (r#" a="\">" />"#, (Progress::Ends(11), true)),
            (" a=b/>", (Progress::Ends(6), true)),
            (" it's>", (Progress::Ends(6), false)),
            (" a < b>", (Progress::Broken(3), false)),
            (" a=\"never closed>", (Progress::Inside, false)),
        ] {
            assert_eq!(tag(inside), expected, "{inside}");
        }
    }

    #[test]
    fn a_quote_where_no_value_begins_is_noticed() {
        for (inside, well) in [
            (" a='1' b=\"'\">", true),
            (" a='1'' >", false),
            (" it's>", false),
            (" a=\"ls' b='[\"x\"]'>", false),
            (" a=x'y>", true),
        ] {
            let mut scan = Scan::new();
            scan.advance(inside.as_bytes());
            assert_eq!(scan.is_well_formed(), well, "{inside}");
        }
    }

    #[test]
    fn attributes_in_every_kind_of_quotes() {
        for (inside, name, expected) in [
            (r#" path="src/a b.ts""#, "path", Some("src/a b.ts")),
            (r" PATH='x'", "path", Some("x")),
            (r#" path=\"x y\" "#, "path", Some("x y")),
            (r" path=\'x\'", "path", Some("x")),
            (r" path = 'x'", "path", Some("x")),
            (r" path=x", "path", Some("x")),
            (r" n=5/", "n", Some("5")),
            (r" n=5 m=6", "m", Some("6")),
            (r#" a="path='no'" path='yes'"#, "path", Some("yes")),
            (r#" path="1" path="2""#, "path", Some("1")),
            (r#" xpath="1" path"#, "path", None),
            (r#" path """#, "path", None),
            (r#" path="""#, "path", Some("")),
            (r#" q="say \"hi\" \\ there""#, "q", Some(r#"say "hi" \ there"#)),
            (r#" q="C:\new""#, "q", Some(r"C:\new")),
            (r" q='it\'s \n'", "q", Some(r"it's \n")),
            (r#" a="1"b="2""#, "b", Some("2")),
            (r#" q=\"say \\\"hi\\\"\""#, "q", Some(r#"say "hi""#)),
        ] {
            let got = Attributes::new(inside).get(name).map(|v| v.text().into_owned());
            assert_eq!(got.as_deref(), expected, "{inside}");
        }
    }

    #[test]
    fn arguments_are_a_json_array_of_strings_however_they_are_quoted() {
        for (inside, expected) in [
            (r#" args='["run","build"]'"#, Some(&["run", "build"][..])),
            (r#" args='["a\"b", "c\\d"]'"#, Some(&["a\"b", "c\\d"])),
            (r#" args="[\"run\",\"say \\\"hi\\\"\"]""#, Some(&["run", "say \"hi\""])),
            (r#" args=\"[\\\"run\\\"]\""#, Some(&["run"])),
            (r#" args=\'["run"]\'"#, Some(&["run"])),
            (r#" args='[\"run\"]'"#, Some(&["run"])),
            (r#" args='["it\'s"]'"#, Some(&["it's"])),
            (r#" args=["run","x"]"#, Some(&["run", "x"])),
            (r#" args='[]'"#, Some(&[])),
            (r#" args='["a",]'"#, None),
            (r#" args="['a']""#, None),
            (r#" args='"a"'"#, None),
            (r#" args='[1]'"#, None),
            (r#" args=''"#, None),
        ] {
            let got = Attributes::new(inside).get("args").unwrap().strings().ok();
            let expected = expected.map(|args| args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
            assert_eq!(got, expected, "{inside}");
        }
    }
}
