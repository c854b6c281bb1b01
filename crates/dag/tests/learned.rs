//! Weights of the learned planner: round trip, rejection of malformed files, independence of the unit of time.

use warpyard_dag::learned::{Network, plan_with};
use warpyard_dag::{Edge, Instance, Layered, Links, check};

#[test]
fn weights_round_trip_through_safetensors() {
    let network = Network::shipped();
    let bytes = network.to_safetensors();
    assert_eq!(Network::from_safetensors(&bytes).as_ref().unwrap(), network);
    assert!(bytes.len() < 16 * 1024, "{} bytes are not small", bytes.len());
}

#[test]
fn malformed_weights_are_rejected() {
    let good = Network::shipped().to_safetensors();
    let told = |bytes: &[u8]| Network::from_safetensors(bytes).unwrap_err().to_string();
    assert_eq!(told(&good[..4]), "the file ends too soon");
    assert_eq!(told(&good[..good.len() - 4]), "the file ends too soon");
    let mut renamed = good.clone();
    let at = good.windows(10).position(|w| w == b"\"out.bias\"").unwrap();
    renamed[at + 1] = b'O';
    assert_eq!(told(&renamed), "tensor out.bias is missing or has another shape");
    let mut endless = good.clone();
    let last = endless.len() - 4;
    endless[last..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert_eq!(told(&endless), "tensor out.bias holds a number that is not finite");
}

/// Features are dimensionless: the same outputs, so the same schedule up to its unit.
#[test]
fn a_plan_does_not_depend_on_the_unit_of_time() {
    let instance = Layered { tasks: 200, machines: 12, seed: 5, ..Default::default() }.generate().unwrap();
    let costs = instance.cost_matrix().iter().map(|c| c * 1024.0).collect();
    let edges: Vec<Edge> = instance.edges().map(|e| Edge { data: e.data * 1024.0, ..e }).collect();
    let scaled = Instance::new(12, costs, &edges, Links::Uniform).unwrap();
    let network = Network::shipped();
    let (plain, large) = (plan_with(&instance, network), plan_with(&scaled, network));
    assert_eq!(check(&scaled, &large), Ok(()));
    assert_eq!(plain.makespan() * 1024.0, large.makespan());
}
