//! Requests that arrive late.

use std::net::Shutdown;

use rustix::net::sockopt::set_socket_linger;

use super::*;

fn wait_for_held(proxy: &FaultProxy, count: usize) {
    crate::wait::until("held connections", TIMEOUT, || Ok(proxy.held() == count)).unwrap();
}

/// Waits until the proxy has seen what `client` sent before its end, and the end.
fn wait_for_end(proxy: &FaultProxy) {
    let ended = || {
        let open = proxy.shared.open_connections();
        Ok(open.iter().filter(|connection| connection.holds()).all(|it| it.ended()))
    };
    crate::wait::until("the end of the clients", TIMEOUT, ended).unwrap();
}

#[test]
fn a_late_request_is_not_received_until_delivered_and_then_answered() {
    let (proxy, got) = proxied();
    let mut client = Client::greeted(&proxy, &got);
    proxy.hold(Hold::Open);
    assert_eq!((proxy.held(), proxy.deliver()), (0, 0));
    client.send("late\n");
    wait_for_held(&proxy, 1);
    assert!(proxy.holds_bytes(b"late\n") && !proxy.holds_bytes(b"hello"));
    nothing(&got);
    assert_eq!((proxy.counters().bytes_to_server, proxy.counters().flights), (6, 2));

    assert_eq!(proxy.deliver(), 1);
    assert_eq!(client.receive(5), "late\n");
    assert_eq!(next(&got), line("late"));
    assert_eq!((proxy.held(), proxy.deliver()), (0, 0));
    // The hold has ended.
    assert_eq!(client.ask("again\n"), "again\n");
    assert_eq!(next(&got), line("again"));
    assert_eq!(proxy.counters().bytes_to_server, 17);
    nothing(&got);
}

#[test]
fn a_request_behind_others_is_held_at_its_first_byte() {
    let (proxy, got) = proxied();
    let mut client = Client::greeted(&proxy, &got);
    proxy.hold(Hold::After(2));
    for free in ["read\n", "read again\n"] {
        assert_eq!(client.ask(free), free);
        assert_eq!(next(&got), line(free.trim_end()));
    }
    // A ping of HTTP/2 is no request.
    let ping = "\0\0\u{8}\u{6}\0\0\0\0\0 a ping\n";
    client.send(ping);
    assert_eq!(next(&got), line(ping.trim_end()));
    client.send("write\n");
    wait_for_held(&proxy, 1);
    nothing(&got);
    assert_eq!(proxy.deliver(), 1);
    assert_eq!(next(&got), line("write"));
}

#[test]
fn a_late_request_arrives_after_its_client_has_gone() {
    let ends: [fn(&FaultProxy, Client); 3] = [
        |_, client| drop(client),
        |_, client| set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap(),
        |proxy, mut client| {
            proxy.sever_clients();
            assert_eq!(client.rest(), "");
        },
    ];
    for end in ends {
        let (proxy, got) = proxied();
        let mut held = Client::greeted(&proxy, &got);
        proxy.hold(Hold::Open);
        // A later connection is not held.
        let mut free = Client::greeted(&proxy, &got);
        held.send("late\n");
        wait_for_held(&proxy, 1);
        end(&proxy, held);
        wait_for_end(&proxy);
        assert_eq!(free.ask("free\n"), "free\n");
        assert_eq!(next(&got), line("free"));
        nothing(&got);
        assert_eq!((proxy.held(), proxy.deliver()), (1, 1));
        assert_eq!(next(&got), line("late"));
        // The server has time to carry out the request.
        nothing(&got);
        assert_eq!(next(&got), Got::End);
        assert_eq!(free.ask("free\n"), "free\n");
    }
}

#[test]
fn all_of_a_long_late_request_arrives_though_nobody_reads_the_replies() {
    let (proxy, got) = proxied();
    let mut client = Client::greeted(&proxy, &got);
    proxy.hold(Hold::Open);
    let lines: Vec<String> = (0..20_000).map(|number| format!("line {number}")).collect();
    client.send(&(lines.join("\n") + "\n"));
    client.stream.shutdown(Shutdown::Write).unwrap();
    wait_for_held(&proxy, 1);
    wait_for_end(&proxy);
    set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
    drop(client);
    assert_eq!(proxy.deliver(), 1);
    for text in &lines {
        assert_eq!(next(&got), line(text));
    }
    assert_eq!(next(&got), Got::End);
}

#[test]
fn no_more_become_late_and_those_that_are_stay_so() {
    let (proxy, got) = proxied();
    let (mut held, mut free) = (Client::greeted(&proxy, &got), Client::greeted(&proxy, &got));
    proxy.hold(Hold::Open);
    held.send("one\n");
    wait_for_held(&proxy, 1);
    proxy.hold(Hold::Open);
    proxy.hold(Hold::None);
    assert_eq!(free.ask("free\n"), "free\n");
    assert_eq!(Client::connect(&proxy).ask("new\n"), "new\n");
    assert_eq!([next(&got), next(&got), next(&got)], [line("free"), line("new"), Got::End]);
    held.send("two\n");
    nothing(&got);
    assert_eq!(proxy.deliver(), 1);
    assert_eq!([next(&got), next(&got)], [line("one"), line("two")]);
}

#[test]
fn a_sever_ends_late_requests() {
    let end_all: [fn(FaultProxy) -> Option<FaultProxy>; 2] = [
        |proxy| {
            proxy.sever();
            assert_eq!((proxy.held(), proxy.deliver()), (0, 0));
            Some(proxy)
        },
        |_drop| None,
    ];
    for end_all in end_all {
        let (proxy, got) = proxied();
        let (mut stays, mut goes) = (Client::greeted(&proxy, &got), Client::greeted(&proxy, &got));
        proxy.hold(Hold::Open);
        stays.send("never\n");
        goes.send("never\n");
        wait_for_held(&proxy, 2);
        drop(goes);
        let _proxy = end_all(proxy);
        assert_eq!(stays.rest(), "");
        assert_eq!([next(&got), next(&got)], [Got::End, Got::End]);
        nothing(&got);
    }
}
