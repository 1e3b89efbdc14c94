//! Distinguishes public addresses from addresses in private networks. A server outside a private
//! network must not redirect requests into that network.

use reqwest::Url;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether any server may redirect to this address. Redirects to this machine, to private
/// networks and to link-local addresses are not allowed. Cloud providers serve credentials at the
/// link-local address 169.254.169.254.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Returns whether an IPv4 address is public. Follows IANA's registry of special-purpose addresses
/// (RFC 6890), but treats only the ranges that are reachable within a site as private.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_this_network = a == 0;
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || is_shared
        || is_this_network)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Addresses in 64:ff9b::/96 are translated to IPv4. So are addresses in the deprecated range
    // ::/96.
    let parts = address.segments();
    let is_translated = parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    if is_translated || parts[..6] == [0; 6] || address.to_ipv4_mapped().is_some() {
        let [.., a, b] = parts;
        return is_public_v4(Ipv4Addr::from_bits(u32::from(a) << 16 | u32::from(b)));
    }
    !(address.is_unique_local() || address.is_unicast_link_local() || address.is_multicast())
}

/// Returns the IP address in a URL, if the host is an address and not a name.
pub(crate) fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_within_a_site_are_not_public() {
        let within = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "224.0.0.1",
        ];
        for text in within {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["93.184.216.34", "2606:2800:220:1::1", "172.32.0.1", "::ffff:8.8.8.8"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        let url = Url::parse("http://[::1]:80/a").unwrap();
        assert_eq!(literal(&url), Some("::1".parse().unwrap()));
    }
}
