//! The servers that have the records of a layout.

use std::collections::HashSet;

use fred::types::config::Server;

use crate::client::Connections;
use crate::driver::Target;
use crate::layout::Layout;
use crate::link;

/// The node of each section, as far as the client knows; `None` without a cluster.
pub(crate) fn of_sections(
    connections: &Connections,
    layout: &Layout,
) -> Vec<(Target, Option<Server>)> {
    let nodes = link::nodes(connections.links());
    let node = |target: Target| nodes.as_ref()?.get_server(target.slot?).cloned();
    layout.sections().iter().map(|section| (section.target(), node(section.target()))).collect()
}

/// One section for each server that has sections.
pub(crate) fn one_section_each(connections: &Connections, layout: &Layout) -> Vec<Target> {
    let mut seen = HashSet::new();
    let sections = of_sections(connections, layout).into_iter();
    sections.filter_map(|(target, server)| seen.insert(server).then_some(target)).collect()
}
