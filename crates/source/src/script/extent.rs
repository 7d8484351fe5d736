//! How much stack it takes to read a text. Parsers and transformers call themselves as deep as a program is nested, and a program may
//! be nested as deep as it is long.

/// Stack that is needed apart from nesting.
const BASE: usize = 1 << 20;
/// The most that is taken: a text that could need more is not read.
const MOST: usize = 256 << 20;
/// What one level of nesting takes, by what it begins with. Measured, of both profiles the greater, and rounded up by half: brackets
/// 1.8 KiB, `namespace a.b` 1.1, words such as `yield` and `infer` 0.6, operators 0.4.
const BRACKET: usize = 3_072;
const MEMBER: usize = 1_536;
const WORD: usize = 1_024;
const OPERATOR: usize = 640;
/// Most brackets that are open at once, and most angle brackets, which may also be operators that nothing closes. Reading takes time
/// that grows with the square of some nestings.
const OPEN: usize = 500;
const OPEN_ANGLES: usize = 2_000;

/// Enough bytes of stack to read a text, whatever is in it; none if that is too much.
///
/// Every level of nesting begins with a punctuator or a word, so counting these bounds the depth. Most of them nest nothing: the
/// answer is generous, and costs address space rather than memory.
pub(super) fn stack_bytes(text: &str) -> Option<usize> {
    let (mut need, mut open, mut angles, mut in_word, mut last) = (BASE, 0usize, 0usize, false, 0u8);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let fraction = byte == b'.' && last.is_ascii_digit() && bytes.peek().is_some_and(u8::is_ascii_digit);
        let word = fraction || byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        need += match byte {
            _ if word => WORD * usize::from(!in_word),
            b'<' if bytes.peek() == Some(&b'/') => OPERATOR,
            b'(' | b'[' | b'{' | b'<' | b'`' => BRACKET,
            b'.' => MEMBER,
            b')' | b']' | b'}' | b',' | b';' | b'"' | b'\'' => 0,
            // No keyword has a letter that is not of ASCII, but a space that is not may part two.
            _ if byte.is_ascii_whitespace() || !byte.is_ascii() => 0,
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
    Some(need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_nest_too_deeply_is_refused_and_ordinary_code_is_not() {
        let ordinary = "export const a = () => <p title={f(x)}>{items.map((item) => <b key={item.id}>it's</b>)}</p>;\n";
        assert!(stack_bytes(&ordinary.repeat(3_500)).is_some(), "a third of a megabyte of JSX");
        assert!(stack_bytes(&"[12.345,-6.7,\"some words\"],".repeat(20_000)).is_some(), "half a megabyte of data");
        assert!(stack_bytes("").is_some_and(|need| need == BASE));
        for nested in ["(", "[", "{", "${", "({a=", "<a>", "`", "!", "typeof ", "typeof\u{a0}", "a?", "x.", "(\")\""] {
            assert_eq!(stack_bytes(&nested.repeat(600_000)), None, "{nested}");
        }
    }
}
