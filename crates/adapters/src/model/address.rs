//! Base URLs: what can be one, and whether it is this machine or its network. It resolves no names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// A server's base URL.
#[derive(Debug, Clone)]
pub(super) struct Address {
    base: Url,
    local: bool,
}

impl Address {
    /// Reads a base URL; the error says what is wrong and does not repeat the text, which may hold a password.
    pub(super) fn parse(base_url: &str) -> Result<Self, String> {
        let text = base_url.trim();
        let mut url = Url::parse(text)
            .map_err(|error| format!("{error}; it must look like https://host/v1 or http://127.0.0.1:1234/v1"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("it must begin with http:// or https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it must not hold a user name or password: give the key apart from it".to_owned());
        }
        url.set_fragment(None);
        let local = url.host_str().is_some_and(is_local_host);
        match url.path_segments_mut() {
            Ok(mut path) => {
                path.pop_if_empty();
            }
            Err(()) => return Err("it has no host".to_owned()),
        }
        Ok(Self { base: url, local })
    }

    /// An address below the base. Segments are text: none of them leads elsewhere or adds a query.
    pub(super) fn below(&self, segments: &[String], query: Option<(&str, &str)>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(segments);
        }
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    pub(super) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// The address for people: without query, which some servers use for keys.
    pub(super) fn shown(&self) -> String {
        shown(self.base.clone())
    }

    /// Whether the server is on this machine or on its network, where a model may have to be loaded first.
    pub(super) fn is_local(&self) -> bool {
        self.local
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.base.scheme() == "https"
    }
}

/// An address for people: without query, which some servers use for keys.
pub(super) fn shown(mut url: Url) -> String {
    url.set_query(None);
    url.to_string()
}

fn is_local_host(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => is_local_v4(ip),
        Ok(IpAddr::V6(ip)) => ip.to_ipv4_mapped().map_or_else(|| is_local_v6(ip), is_local_v4),
        Err(_) => {
            let host = host.to_ascii_lowercase();
            // A name without a dot is a machine of this network or a service of this composition.
            !host.contains('.')
                || [".localhost", ".local", ".lan", ".internal", ".home.arpa"].iter().any(|end| host.ends_with(end))
        }
    }
}

fn is_local_v4(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    let shared = first == 100 && (64..128).contains(&second); // RFC 6598, which overlay networks use
    ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified() || shared
}

fn is_local_v6(ip: Ipv6Addr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_used_as_given() {
        let table = [
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            ("http://127.0.0.1:1234/v1/", "http://127.0.0.1:1234/v1/chat/completions"),
            (" http://localhost:11434 ", "http://localhost:11434/chat/completions"),
            ("https://host/api?version=2#x", "https://host/api/chat/completions?version=2"),
        ];
        for (base, full) in table {
            let segments = ["chat".to_owned(), "completions".to_owned()];
            assert_eq!(Address::parse(base).unwrap().below(&segments, None).as_str(), full);
        }
    }

    #[test]
    fn a_models_name_is_one_segment_whatever_it_holds() {
        let base = Address::parse("https://host/v1beta/").unwrap();
        let table = [
            ("gemini-3-pro:streamGenerateContent", "gemini-3-pro:streamGenerateContent"),
            ("../../admin?x=1#y", "..%2F..%2Fadmin%3Fx=1%23y"),
            ("a%2e%2e", "a%252e%252e"),
        ];
        for (name, segment) in table {
            let url = base.below(&["models".to_owned(), name.to_owned()], Some(("alt", "sse")));
            assert_eq!(url.as_str(), format!("https://host/v1beta/models/{segment}?alt=sse"));
        }
    }

    #[test]
    fn what_cannot_be_a_base_url_is_refused_without_repeating_it() {
        for bad in
            ["", "localhost:1234", "ftp://host/v1", "https://me:pa55@host/v1", "https://pa55@host", "mailto:pa55@host"]
        {
            let error = Address::parse(bad).unwrap_err();
            assert!(!error.contains("pa55"), "{error}");
        }
    }

    #[test]
    fn local_hosts_are_known() {
        let local = [
            "http://localhost:1/v1",
            "http://127.3.2.1",
            "http://[::1]:8000",
            "http://192.168.1.5",
            "http://10.0.0.1",
            "http://172.31.0.1",
            "http://100.100.1.1",
            "http://[fd00::1]",
            "http://[::ffff:127.0.0.1]",
            "http://ollama:11434/v1",
            "http://host.docker.internal:1234",
            "http://studio.local",
            "http://0.0.0.0:80",
        ];
        let remote = [
            "https://api.openai.com/v1",
            "http://8.8.8.8",
            "http://172.32.0.1",
            "http://[2001:db8::1]",
            "https://local.example.org",
        ];
        for url in local {
            assert!(Address::parse(url).unwrap().is_local(), "{url}");
        }
        for url in remote {
            assert!(!Address::parse(url).unwrap().is_local(), "{url}");
        }
    }
}
