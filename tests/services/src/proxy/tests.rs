//! Tests with a server that answers each line with the same line.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::time::Instant;

use super::*;

mod late;
mod telling;

/// Long enough even for a busy machine.
const LATENCY: Duration = Duration::from_millis(150);
/// The limit for events that must happen.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until the test process ends. Returns its port, and a counter of received lines.
fn echo_server() -> (u16, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = Arc::new(Mutex::new(0));
    let count = Arc::clone(&received);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, count) = (stream.unwrap(), Arc::clone(&count));
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || {
                for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                    *lock(&count) += 1;
                    if (&stream).write_all(format!("{line}\n").as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (port, received)
}

struct Client {
    stream: TcpStream,
}

impl Client {
    fn connect(proxy: &FaultProxy) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Self { stream }
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
fn forwards_and_counts() {
    let (port, _) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.ask("one\n"), "one\n");
    let before = proxy.counters();
    assert_eq!((before.connections, before.flights), (1, 1));

    assert_eq!(client.ask("two\n"), "two\n");
    assert_eq!(client.ask("three\n"), "three\n");
    let more =
        Counters { bytes_to_server: 10, bytes_to_client: 10, flights: 2, ..Counters::default() };
    assert_eq!(proxy.counters() - before, more);
}

#[test]
fn a_flight_is_what_is_sent_without_waiting() {
    let (port, _) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    // Replies are late enough that all requests are sent before the first of them.
    proxy.set_latency(Duration::ZERO, LATENCY);
    let mut client = Client::connect(&proxy);
    for round_trips in 1..=3 {
        for line in ["a\n", "b\n", "c\n"] {
            client.send(line);
        }
        assert_eq!(client.receive(6), "a\nb\nc\n");
        assert_eq!(proxy.counters().flights, round_trips);
    }
}

#[test]
fn latency_delays_each_way_once_for_a_whole_flight() {
    let (port, _) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    proxy.set_latency(LATENCY, LATENCY);
    let mut client = Client::connect(&proxy);
    let started = Instant::now();
    for _ in 0..5 {
        client.send("line\n");
        thread::sleep(LATENCY / 10);
    }
    client.receive(25);
    let taken = started.elapsed();
    assert!(taken >= 2 * LATENCY, "{taken:?}");
    assert!(taken < 5 * LATENCY, "{taken:?}");
}

#[test]
fn cuts_the_reply_at_every_byte_and_only_once() {
    let (port, received) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    for after in 0..="reply\n".len() {
        let mut client = Client::connect(&proxy);
        assert_eq!(client.ask("first\n"), "first\n");
        proxy.set_reply_cut(ReplyCut::Once(after));
        client.send("reply\n");
        assert_eq!(client.rest(), "reply\n"[..after]);
        assert_eq!(proxy.counters().cuts, after as u64 + 1);
        // The server did carry out the request.
        assert_eq!(*lock(&received), 2 * (after + 1));
    }
    // The limit is longer than the reply, so it cuts nothing and stays armed.
    proxy.set_reply_cut(ReplyCut::Once(7));
    let mut client = Client::connect(&proxy);
    assert_eq!(client.ask("reply\n"), "reply\n");
    assert_eq!(client.ask("reply\n"), "reply\n");
    assert_eq!(client.ask("longer\n"), "longer\n");
    assert_eq!(client.rest(), "");
}

#[test]
fn cuts_every_reply_until_told_otherwise() {
    let (port, _) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    proxy.set_reply_cut(ReplyCut::Always(2));
    for _ in 0..3 {
        let mut client = Client::connect(&proxy);
        client.send("reply\n");
        assert_eq!(client.rest(), "re");
    }
    proxy.set_reply_cut(ReplyCut::Never);
    assert_eq!(Client::connect(&proxy).ask("reply\n"), "reply\n");
}

#[test]
fn refuses_new_connections_and_keeps_the_old() {
    let (port, _) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    let mut old = Client::connect(&proxy);
    assert_eq!(old.ask("a\n"), "a\n");

    proxy.refuse();
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(old.ask("b\n"), "b\n");

    proxy.accept().unwrap();
    assert_eq!(Client::connect(&proxy).ask("c\n"), "c\n");
}

#[test]
fn half_closes_towards_the_client() {
    let (port, received) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.ask("a\n"), "a\n");
    proxy.half_close();
    assert_eq!(client.rest(), "");
    client.send("b\n");
    client.stream.shutdown(Shutdown::Write).unwrap();
    crate::wait::until("the line", Duration::from_secs(5), || Ok(*lock(&received) == 2)).unwrap();
}

#[test]
fn a_frozen_connection_swallows_and_goes_on_after() {
    let (port, received) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.ask("a\n"), "a\n");

    proxy.freeze(true);
    client.send("lost\n");
    client.stream.set_read_timeout(Some(LATENCY)).unwrap();
    let silence = client.stream.read(&mut [0]).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    assert_eq!(*lock(&received), 1);

    proxy.freeze(false);
    client.stream.set_read_timeout(None).unwrap();
    assert_eq!(client.ask("b\n"), "b\n");
}

#[test]
fn severs_all_connections() {
    let (port, _) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    let mut clients = [(); 3].map(|()| Client::connect(&proxy));
    for client in &mut clients {
        assert_eq!(client.ask("a\n"), "a\n");
    }
    proxy.sever();
    for client in &mut clients {
        assert_eq!(client.rest(), "");
    }
}

#[test]
fn closes_a_connection_when_the_server_is_down() {
    let proxy = FaultProxy::start(ports::free().unwrap()).unwrap();
    assert_eq!(Client::connect(&proxy).rest(), "");
}

#[test]
fn the_port_is_free_after_a_drop() {
    let (port, _) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    let port = proxy.port();
    drop(proxy);
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
}

#[test]
fn forgets_connections_and_accepts_new_ones() {
    let (port, received) = echo_server();
    let proxy = FaultProxy::start(port).unwrap();
    let mut clients = [Client::connect(&proxy), Client::connect(&proxy)];
    for client in &mut clients {
        assert_eq!(client.ask("one\n"), "one\n");
    }
    proxy.forget();
    for client in &mut clients {
        client.send("lost\n");
        assert_eq!(client.rest(), "");
    }
    assert_eq!(Client::connect(&proxy).ask("two\n"), "two\n");
    assert_eq!(*lock(&received), 3);
}
