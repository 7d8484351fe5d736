//! A client that sends exactly what it is told: paths and hosts that no library would let pass.

use std::collections::VecDeque;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer, whole or with its body still coming.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The problem's code; checks that it is a problem in full.
    pub fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let problem: contract::problem::Problem = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem.status, self.status);
        assert!(!problem.detail.is_empty() && !problem.action.is_empty());
        problem.code
    }
}

/// A request in pieces.
pub struct Ask<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub headers: Vec<(&'a str, String)>,
    pub body: &'a [u8],
}

impl Ask<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        let has_length = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if !self.body.is_empty() && !has_length {
            text += &format!("Content-Length: {}\r\n", self.body.len());
        }
        [text.as_bytes(), b"\r\n", self.body].concat()
    }
}

/// A connection on which one answer is read.
pub struct Connection {
    pub stream: TcpStream,
    buffer: VecDeque<u8>,
    chunked: bool,
}

impl Connection {
    pub async fn open(port: u16) -> Self {
        Self::on(TcpStream::connect(("127.0.0.1", port)).await.unwrap())
    }

    pub fn on(stream: TcpStream) -> Self {
        Self { stream, buffer: VecDeque::new(), chunked: false }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// More bytes of the wire; false at its end, however it came.
    async fn fill(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece).await {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.buffer.extend(&piece[..read]);
                true
            }
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The head of the answer.
    pub async fn head(&mut self) -> Answer {
        let status = self.line().await.expect("an answer");
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        while let Some(line) = self.line().await.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let answer = Answer { status, headers, body: Vec::new() };
        self.chunked = answer.header("transfer-encoding") == Some("chunked");
        answer
    }

    /// The next piece of a body; none at its proper end, an error if it was cut off.
    pub async fn piece(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        assert!(self.chunked, "only streams are read in pieces");
        let size = self.line().await.ok_or("cut off")?;
        let size = usize::from_str_radix(&size, 16).unwrap();
        while self.buffer.len() < size + 2 {
            if !self.fill().await {
                return Err("cut off");
            }
        }
        let piece: Vec<u8> = self.buffer.drain(..size).collect();
        self.buffer.drain(..2);
        Ok((size > 0).then_some(piece))
    }

    /// The whole answer to a request that did not have HEAD.
    pub async fn whole(&mut self) -> Answer {
        let mut answer = self.head().await;
        if self.chunked {
            while let Ok(Some(piece)) = self.piece().await {
                answer.body.extend(piece);
            }
        } else if let Some(length) = answer.header("content-length").map(|text| text.parse::<usize>().unwrap()) {
            while self.buffer.len() < length && self.fill().await {}
            answer.body = self.buffer.drain(..).collect();
            assert_eq!(answer.body.len(), length);
        }
        answer
    }
}

/// An event as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub id: String,
    pub kind: String,
    pub data: String,
}

impl Event {
    pub fn seq(&self) -> u64 {
        self.id.rsplit_once(':').unwrap().1.parse().unwrap()
    }
}

/// A stream of events that is being read.
pub struct Events {
    pub connection: Connection,
    text: String,
    pub comments: usize,
    /// What the last one said.
    pub comment: String,
}

impl Events {
    pub fn new(connection: Connection) -> Self {
        Self { connection, text: String::new(), comments: 0, comment: String::new() }
    }

    /// The next event; none at the proper end.
    pub async fn next(&mut self) -> Result<Option<Event>, &'static str> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                match parse(&block) {
                    Some(event) => return Ok(Some(event)),
                    None if block.starts_with(':') => {
                        self.comments += 1;
                        self.comment = block;
                    }
                    None => {}
                }
                continue;
            }
            match self.connection.piece().await? {
                Some(piece) => self.text += std::str::from_utf8(&piece).unwrap(),
                None => {
                    assert_eq!(self.text, "", "a stream ends between events");
                    return Ok(None);
                }
            }
        }
    }

    /// Every event up to the proper end.
    pub async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await.unwrap() {
            events.push(event);
        }
        events
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    Some(Event { id: field("id: ")?, kind: field("event: ")?, data: field("data: ")? })
}
