//! How much stack it takes to read a text. Parsers and transformers call themselves as deep as a program is nested, and a program may
//! be nested as deep as it is long.

/// Stack that is needed apart from nesting.
const BASE: usize = 1 << 20;
/// The most that is taken: a text that could need more is not read.
const MOST: usize = 256 << 20;
/// What one level of nesting takes, by what it begins with. Measured: types in brackets take most, 1.8 KiB; chains of operators half
/// a KiB; prefixes such as `typeof` a third of one.
const BRACKET: usize = 3_072;
const MEMBER: usize = 1_536;
const OPERATOR: usize = 640;
const WORD: usize = 512;
/// Most brackets that are open at once, and most angle brackets, which may also be operators that nothing closes. Reading takes time
/// that grows with the square of some nestings.
const OPEN: usize = 500;
const OPEN_ANGLES: usize = 2_000;

/// Enough bytes of stack to read a text, whatever is in it; none if that is too much.
///
/// Every level of nesting begins with a punctuator or a word, so counting these bounds the depth. Most of them nest nothing: the
/// answer is generous, and costs address space rather than memory.
pub(super) fn stack_bytes(text: &str) -> Option<usize> {
    let (mut need, mut open, mut angles, mut in_word, mut last) = (BASE, 0usize, 0usize, false, 0);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let word = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii();
        need += match byte {
            _ if word => WORD * usize::from(!in_word),
            b'<' if bytes.peek() == Some(&b'/') => OPERATOR,
            b'(' | b'[' | b'{' | b'<' | b'`' => BRACKET,
            b'.' => MEMBER,
            b')' | b']' | b'}' | b',' | b';' | b'"' | b'\'' => 0,
            _ if byte.is_ascii_whitespace() => 0,
            _ => OPERATOR,
        };
        in_word = word;
        open = match byte {
            b'(' | b'[' | b'{' => open + 1,
            b')' | b']' | b'}' => open.saturating_sub(1),
            _ => open,
        };
        angles = match byte {
            b'<' if !matches!(bytes.peek(), Some(b'=')) => angles + 1,
            b'>' if last != b'=' => angles.saturating_sub(1),
            _ => angles,
        };
        last = byte;
        if need > MOST || open > OPEN || angles > OPEN_ANGLES {
            return None;
        }
    }
    let scale: usize = { #[expect(clippy::disallowed_methods)] { std::env::var("SCALE").ok().and_then(|s| s.parse().ok()).unwrap_or(100) } };
    Some(if scale == 100 { need } else { (need - BASE) * scale / 100 + 100_000 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_nest_too_deeply_is_refused_and_ordinary_code_is_not() {
        let ordinary = "export const a = () => <p title={f(x)}>{items.map((item) => <b key={item.id}>it's</b>)}</p>;\n";
        assert!(stack_bytes(&ordinary.repeat(5_000)).is_some(), "a file of half a megabyte");
        assert!(stack_bytes("").is_some_and(|need| need == BASE));
        for nested in ["(", "[", "{", "${", "({a=", "<a>", "`", "!", "typeof ", "a?", "x.", "(\")\""] {
            assert_eq!(stack_bytes(&nested.repeat(600_000)), None, "{nested}");
        }
    }
}
