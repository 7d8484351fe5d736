//! A script of ours in a page that somebody else made.

/// The page with a script before every other: at the start of its head, or of the page if it has none. A page that is not UTF-8
/// stays as it is.
pub fn with_script(html: &[u8], address: &str) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(html) else { return html.to_vec() };
    let tag = format!("<script src=\"{address}\"></script>");
    crate::html::write(text, &tag, &[]).map_or_else(|_| html.to_vec(), String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::with_script;

    #[test]
    fn the_script_comes_before_every_other() {
        let tag = "<script src=\"/x.js\"></script>";
        let cases = [
            (
                "<!doctype html><html><head><script src=a></script></head></html>",
                "<!doctype html><html><head>",
                "<script src=a></script></head></html>",
            ),
            ("<HEAD lang=en><title>a</title></HEAD><head>", "<HEAD lang=en>", "<title>a</title></HEAD><head>"),
            ("<script>1</script>", "", "<script>1</script>"),
            ("<!doctype html><body>a", "<!doctype html>", "<body>a"),
            ("", "", ""),
        ];
        for (page, before, after) in cases {
            assert_eq!(
                String::from_utf8(with_script(page.as_bytes(), "/x.js")).unwrap(),
                format!("{before}{tag}{after}")
            );
        }
        assert_eq!(with_script(&[0xff, b'<'], "/x.js"), [0xff, b'<'], "no text");
    }
}
