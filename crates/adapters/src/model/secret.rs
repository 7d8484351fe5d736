//! A key that cannot be printed by accident, and that removes itself from texts of others.

use std::fmt;

/// What stands where a key stood. It holds no character that a key can hold.
const MARK: &str = "•••";

/// A key: visible ASCII, so that a header can carry it. `Debug` does not show it; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The key without the blanks and line ends round it. None if nothing is left, or if it holds what no header can carry.
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(key.to_owned()))
    }

    /// The key itself, for the one header that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the key.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.0, MARK)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secret({MARK})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_trimmed_and_one_that_no_header_can_carry_is_none() {
        assert_eq!(Secret::new(" sk-1\n").unwrap().expose(), "sk-1");
        for bad in ["", "  \n", "two words", "ключ", "a\u{0}b"] {
            assert_eq!(Secret::new(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_holds_the_key_after_redaction(key in "[a-c]{1,4}", text in "[a-c ]{0,40}") {
            let secret = Secret::new(&key).unwrap();
            prop_assert!(!secret.redact(&text).contains(&key));
            let debug = format!("{secret:?}");
            prop_assert_eq!(debug, "Secret(•••)");
        }
    }
}
