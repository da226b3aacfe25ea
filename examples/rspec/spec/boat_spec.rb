RSpec.describe Boat do
  subject(:boat) { described_class.new(30) }

  it "is empty at first" do
    expect(boat.free).to eq(30)
  end

  it "carries what fits" do
    boat.load("coal", 20).load("salt", 10)
    expect(boat.free).to be_zero
  end

  it "refuses what does not" do
    expect { boat.load("ore", 31) }.to raise_error(Boat::Overloaded, /1 t too much/)
  end
end
