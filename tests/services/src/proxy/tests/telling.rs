//! A server that reports the bytes that it gets.

use std::sync::mpsc::{Receiver, channel};

use super::*;

/// The bytes that a server got over one connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Got {
    Line(String),
    End,
    Reset,
}

/// Reports the bytes of all connections in the order of their arrival, and then answers each line with the same line.
pub(super) fn telling_server() -> (u16, Receiver<Got>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, got) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tell) = (stream.unwrap(), tell.clone());
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
    (port, got)
}

pub(super) fn line(text: &str) -> Got {
    Got::Line(text.to_owned())
}

pub(super) fn next(got: &Receiver<Got>) -> Got {
    got.recv_timeout(TIMEOUT).unwrap()
}

pub(super) fn nothing(got: &Receiver<Got>) {
    let more = got.recv_timeout(LATENCY);
    assert!(more.is_err(), "{more:?}");
}
