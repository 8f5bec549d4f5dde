//! The servers that have the records of a layout.

use std::collections::HashSet;

use fred::clients::Client;
use fred::interfaces::ClusterInterface as _;
use fred::types::config::Server;

use crate::client::Connections;
use crate::driver::At;
use crate::layout::Layout;

/// The node of each section, as far as the client knows; `None` without a cluster.
pub(crate) fn of_sections(connections: &Connections, layout: &Layout) -> Vec<(At, Option<Server>)> {
    let nodes = connections.clients().find_map(Client::cached_cluster_state);
    let node = |at: At| nodes.as_ref()?.get_server(at.slot?).cloned();
    layout.sections().iter().map(|section| (section.at(), node(section.at()))).collect()
}

/// One section for each server that has sections.
pub(crate) fn one_section_each(connections: &Connections, layout: &Layout) -> Vec<At> {
    let mut seen = HashSet::new();
    let sections = of_sections(connections, layout).into_iter();
    sections.filter_map(|(at, server)| seen.insert(server).then_some(at)).collect()
}
