//! Tests with a server that answers each line with the same line, and reports what it gets.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use super::*;

mod late;

/// Long enough even for a busy machine.
const LATENCY: Duration = Duration::from_millis(150);
/// The limit for events that must happen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The bytes that a server got over one connection.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    Line(String),
    End,
    Reset,
}

/// A proxy to a server that lives until the test process ends, and what the server got over all connections, in the
/// order of arrival.
fn proxied() -> (FaultProxy, Receiver<Got>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, got) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tell) = (stream.unwrap(), tell.clone());
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || {
                for line in BufReader::new(&stream).lines() {
                    let Ok(line) = line else {
                        return tell.send(Got::Reset);
                    };
                    let reply = format!("{line}\n");
                    tell.send(Got::Line(line))?;
                    let _ = (&stream).write_all(reply.as_bytes());
                }
                tell.send(Got::End)
            });
        }
    });
    (FaultProxy::start(port).unwrap(), got)
}

fn line(text: &str) -> Got {
    Got::Line(text.to_owned())
}

fn next(got: &Receiver<Got>) -> Got {
    got.recv_timeout(TIMEOUT).unwrap()
}

fn nothing(got: &Receiver<Got>) {
    let more = got.recv_timeout(LATENCY);
    assert!(more.is_err(), "{more:?}");
}

struct Client {
    stream: TcpStream,
}

impl Client {
    fn connect(proxy: &FaultProxy) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream }
    }

    /// A client whose connection the proxy has accepted.
    fn greeted(proxy: &FaultProxy, got: &Receiver<Got>) -> Self {
        let mut client = Self::connect(proxy);
        assert_eq!(client.ask("hello\n"), "hello\n");
        assert_eq!(next(got), line("hello"));
        client
    }

    fn send(&mut self, line: &str) {
        self.stream.write_all(line.as_bytes()).unwrap();
    }

    fn receive(&mut self, length: usize) -> String {
        let mut reply = vec![0; length];
        self.stream.read_exact(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.receive(line.len())
    }

    /// Reads to the end of the stream.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).unwrap();
        rest
    }
}

#[test]
fn counts_flights_of_what_is_sent_without_waiting() {
    let (proxy, _got) = proxied();
    // Replies are late enough that all requests are sent before the first of them.
    proxy.set_latency(Duration::ZERO, LATENCY);
    let mut client = Client::connect(&proxy);
    for flights in 1..=3 {
        for line in ["a\n", "b\n", "c\n"] {
            client.send(line);
        }
        assert_eq!(client.receive(6), "a\nb\nc\n");
        let bytes = 6 * flights;
        let expected = Counters {
            connections: 1,
            bytes_to_server: bytes,
            bytes_to_client: bytes,
            flights,
            ..Counters::default()
        };
        assert_eq!(proxy.counters(), expected);
    }
}

#[test]
fn latency_delays_each_way_once_for_a_whole_flight() {
    let (proxy, _got) = proxied();
    let latency = Duration::from_secs(1);
    proxy.set_latency(latency, latency);
    let mut client = Client::connect(&proxy);
    let started = Instant::now();
    for _ in 0..40 {
        client.send("line\n");
        thread::sleep(LATENCY / 10);
    }
    client.receive(200);
    let taken = started.elapsed();
    // One line after the other would take 40 s and more.
    assert!(taken >= 2 * latency && taken < 30 * latency, "{taken:?}");
}

#[test]
fn cuts_the_reply_at_every_byte_and_only_once() {
    let (proxy, got) = proxied();
    for after in 0..="reply\n".len() {
        let mut client = Client::greeted(&proxy, &got);
        proxy.set_reply_cut(ReplyCut::Once(after));
        client.send("reply\n");
        assert_eq!(client.rest(), "reply\n"[..after]);
        assert_eq!(proxy.counters().cuts, after as u64 + 1);
        // The server did carry out the request.
        assert_eq!([next(&got), next(&got)], [line("reply"), Got::End]);
    }
    // The limit is longer than the reply, so it cuts nothing and stays armed.
    proxy.set_reply_cut(ReplyCut::Once(7));
    let mut client = Client::connect(&proxy);
    assert_eq!(client.ask("reply\n"), "reply\n");
    assert_eq!(client.ask("longer\n"), "longer\n");
    assert_eq!(client.rest(), "");
}

#[test]
fn refuses_new_connections_and_keeps_the_old() {
    let (proxy, got) = proxied();
    let mut old = Client::greeted(&proxy, &got);
    proxy.refuse();
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(old.ask("b\n"), "b\n");
    proxy.accept().unwrap();
    assert_eq!(Client::connect(&proxy).ask("c\n"), "c\n");
    // A server that is down closes the connection.
    proxy.lead_to(ports::free().unwrap());
    assert_eq!(Client::connect(&proxy).rest(), "");
}

#[test]
fn frozen_and_silent_connections_swallow_what_they_get() {
    let (proxy, got) = proxied();
    let mut client = Client::greeted(&proxy, &got);
    let swallows = |client: &mut Client| {
        client.send("lost\n");
        client.stream.set_read_timeout(Some(LATENCY)).unwrap();
        let silence = client.stream.read(&mut [0]).unwrap_err();
        assert_eq!(silence.kind(), ErrorKind::WouldBlock);
        client.stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        nothing(&got);
    };
    proxy.freeze(true);
    swallows(&mut client);
    swallows(&mut Client::connect(&proxy));
    assert_eq!(next(&got), Got::End);
    proxy.freeze(false);
    assert_eq!(client.ask("b\n"), "b\n");
    assert_eq!(next(&got), line("b"));

    proxy.silence();
    swallows(&mut client);
    assert_eq!(Client::connect(&proxy).ask("c\n"), "c\n");
}

#[test]
fn ends_the_connection_that_sends_a_text() {
    let (proxy, got) = proxied();
    proxy.end_at("inf");
    let mut client = Client::greeted(&proxy, &got);
    client.send("an INFO\n");
    assert_eq!(client.rest(), "");
    assert_eq!(next(&got), Got::End);
    assert_eq!(Client::connect(&proxy).ask("in fact\n"), "in fact\n");
}

#[test]
fn severs_and_forgets_the_connections_that_are_open() {
    let (proxy, got) = proxied();
    let ways: [fn(&FaultProxy, &mut Client); 2] = [
        |proxy, _| proxy.sever(),
        |proxy, client| {
            proxy.forget();
            client.send("lost\n");
        },
    ];
    for end in ways {
        let mut clients = [(); 3].map(|()| Client::greeted(&proxy, &got));
        for client in &mut clients {
            end(&proxy, client);
            assert_eq!(client.rest(), "");
            assert_eq!(next(&got), Got::End);
        }
        assert_eq!(Client::connect(&proxy).ask("new\n"), "new\n");
        assert_eq!([next(&got), next(&got)], [line("new"), Got::End]);
    }
}
