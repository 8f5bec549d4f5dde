//! Queries for documents.

use gcloud_sdk::google::firestore::v1::StructuredQuery;
use gcloud_sdk::google::firestore::v1::structured_query::composite_filter::Operator as Composite;
use gcloud_sdk::google::firestore::v1::structured_query::field_filter::Operator;
use gcloud_sdk::google::firestore::v1::structured_query::filter::FilterType;
use gcloud_sdk::google::firestore::v1::structured_query::{
    CollectionSelector, CompositeFilter, Direction, FieldFilter, FieldReference, Filter, Order,
};
use syncguard_core::LockId;
use syncguard_core::inventory::ListRequest;

use crate::document::{LOCK_ID, string};

/// Queries all locks with this lock id.
pub(crate) fn by_lock_id(collection: &str, lock_id: LockId) -> StructuredQuery {
    StructuredQuery {
        from: within(collection),
        r#where: Some(filter(LOCK_ID, Operator::Equal, lock_id.expose())),
        ..StructuredQuery::default()
    }
}

/// Queries a page of documents, ordered by a field that holds keys.
pub(crate) fn page(collection: &str, field: &str, request: &ListRequest) -> StructuredQuery {
    let start = request.expose_start();
    let is_behind = request.expose_place() == Some(start);
    let from = if is_behind { Operator::GreaterThan } else { Operator::GreaterThanOrEqual };
    let mut filters = vec![filter(field, from, start)];
    if !request.expose_prefix().is_empty() {
        filters.push(filter(field, Operator::LessThan, &request.expose_end()));
    }
    let all = CompositeFilter { op: Composite::And.into(), filters };
    StructuredQuery {
        from: within(collection),
        r#where: Some(Filter { filter_type: Some(FilterType::CompositeFilter(all)) }),
        order_by: vec![Order {
            field: Some(FieldReference { field_path: field.to_owned() }),
            direction: Direction::Ascending.into(),
        }],
        limit: Some(i32::try_from(request.page_size()).unwrap_or(i32::MAX)),
        ..StructuredQuery::default()
    }
}

fn within(collection: &str) -> Vec<CollectionSelector> {
    vec![CollectionSelector { collection_id: collection.to_owned(), all_descendants: false }]
}

fn filter(field: &str, op: Operator, text: &str) -> Filter {
    let filter = FieldFilter {
        field: Some(FieldReference { field_path: field.to_owned() }),
        op: op.into(),
        value: Some(string(text)),
    };
    Filter { filter_type: Some(FilterType::FieldFilter(filter)) }
}
