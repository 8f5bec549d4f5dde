//! Arrays of one dimension, as PostgreSQL sends them.

use bytes::{Buf as _, BufMut as _, BytesMut};

/// Writes elements of a type, which have no NULL among them.
pub(super) fn write<'a>(
    out: &mut BytesMut,
    kind: u32,
    elements: impl ExactSizeIterator<Item = Vec<u8>> + 'a,
) {
    out.put_i32(i32::from(elements.len() > 0));
    out.put_i32(0);
    out.put_u32(kind);
    if elements.len() == 0 {
        return;
    }
    out.put_i32(i32::try_from(elements.len()).expect("few"));
    out.put_i32(1);
    for element in elements {
        out.put_i32(i32::try_from(element.len()).expect("short"));
        out.put_slice(&element);
    }
}

pub(super) fn read(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let dimensions = bytes.get_i32();
    bytes.advance(8);
    if dimensions == 0 {
        return Vec::new();
    }
    let count = bytes.get_i32();
    bytes.advance(4);
    let element = |_| {
        let length = usize::try_from(bytes.get_i32()).expect("a length");
        let element = bytes[..length].to_vec();
        bytes.advance(length);
        element
    };
    (0..count).map(element).collect()
}
